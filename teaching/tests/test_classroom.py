"""A class on one machine: eight learners at once, what none may do, and that nothing is lost when something breaks."""

import asyncio
import csv
import functools
import grp
import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from teaching.classroom import __main__ as command
from teaching.classroom import accounts, client, collect, environment, install, passwords, ports
from teaching.classroom.trial import Trial, crowd, table

ROOT = install.ROOT


# --------------------------------------------------------------------------------------------- what needs no machine


def test_a_list_of_names_is_read_and_what_is_wrong_is_named(tmp_path):
    path = tmp_path / "names.txt"
    with pytest.raises(accounts.NamesError, match="There is no .*names.txt. Make a text file, a name a line"):
        accounts.read_names(path)
    path.write_text("\ufeffMara\n\n  li2  # second row\n", encoding="utf-8")
    assert accounts.read_names(path) == ["mara", "li2"]
    wrong = {b"li\nmara\nLI\n": "line 3: 'li' is on line 1 already", "jürgen".encode("latin-1"): "is not plain text"}
    for name in ("ma ra", "mära", "2li", "../x", "a" * 21, "a-b"):
        wrong[f"li\n{name}\n".encode()] = "names.txt, line 2: .* letter"
    for data, message in wrong.items():
        path.write_bytes(data)
        with pytest.raises(accounts.NamesError, match=message):
            accounts.read_names(path)


def test_wrong_passwords_are_slowed_by_name_and_address():
    now = [0.0]
    pauses = passwords.Pauses(lambda: now[0])
    pauses.note("mara", "school", True)
    for wait in (1, 2, 4, 8, 16, 30, 30):
        pauses.note("mara", "home", False)
        assert pauses.left("mara", "home") == wait
        now[0] += wait
        assert {pauses.left(*who) for who in (("mara", "home"), ("li", "home"), ("mara", "school"))} == {0}
    for right, wait in ((True, 0), (False, 1)):  # a right one ends the row
        pauses.note("mara", "home", right)
        assert pauses.left("mara", "home") == wait
    for index in range(pauses.ANYWHERE + 1):
        assert pauses.left("li", "a new address") == 0
        pauses.note("li", f"address {index}", False)
    assert pauses.left("li", "a new address") == 1 and pauses.left("mara", "a new address") == 0
    now[0] += pauses.FORGET
    pauses.note("kim", "home", True)
    assert not pauses.wrong, "forgotten"


def entry(name, home, uid=None):
    """Return an account as the system's list has it, of the user and the group that run this test."""
    return pwd.struct_passwd((name, "x", os.getuid() if uid is None else uid, os.getgid(), "", str(home), "/bin/sh"))


def test_no_folder_is_deleted_but_the_accounts_own_home(tmp_path, monkeypatch):
    homes = tmp_path / "homes"
    for name in ("g-mara", "g-else", "g-mara/g-mara"):
        (homes / name).mkdir(parents=True)
    (homes / "g-link").symlink_to(tmp_path)
    (homes / "g-file").write_text("mine")
    group = grp.getgrgid(os.getgid()).gr_name
    refused = [
        entry("g-mara", "/"),
        entry("g-mara", "/etc"),
        entry("g-mara", homes / "g-else"),
        entry("g-mara", homes / "g-mara/g-mara"),
        entry("g-link", homes / "g-link"),
        entry("g-file", homes / "g-file"),
        entry("g-else", homes / "g-else", uid=os.getuid() + 1),
        entry("homes", tmp_path / "homes/."),
        entry("..", homes / "g-mara/.."),
    ]
    monkeypatch.setattr(accounts.subprocess, "run", lambda *command, **_: pytest.fail(f"{command}"))
    monkeypatch.setattr(accounts.os, "rmdir", lambda path: pytest.fail(f"rmdir {path}"))
    for user in refused:
        for act in (accounts.delete_home, accounts.delete_account):
            with pytest.raises(PermissionError):
                act(user, homes) if act is accounts.delete_home else act(user)
        monkeypatch.setattr(accounts, "_entry", lambda *_, user=user: user)
        with pytest.raises(PermissionError):
            accounts.ensure(group, user.pw_name.removeprefix("g-"), homes)
    monkeypatch.setattr(accounts.os.path, "ismount", lambda _: True)
    with pytest.raises(PermissionError, match="disk of its own"):
        accounts.delete_home(entry("g-mara", homes / "g-mara"), homes)
    with pytest.raises(PermissionError, match="root"):
        accounts.end_processes([entry("root", "/root", uid=0)])
    source = (environment.HERE / "accounts.py").read_text(encoding="utf-8")
    assert re.findall(r"\[\"userdel\".*\]", source) == ['["userdel", "--force", user.pw_name]']


def with_ports(**values):
    free = {name: ports.free_port() for name in ("port", "hub_port", "proxy_port", "page_port")}
    return command.with_free_ports(free | {"host": "127.0.0.1"} | values)


def holding_something_else(folder):
    (folder / "run").mkdir()
    with command.lock(folder):
        pass


REFUSED = {  # what is said: what is tried, in an empty folder
    "not a class's.* --folder": holding_something_else,
    "make notebooks": install.course_files,
    "--learners names.txt .*--open": lambda folder: command.settings(folder, command.parse([])),
    "--cert and --key": lambda folder: command.settings(folder, command.parse(["--open", "--cert", "a.pem"])),
    "cannot be reached at 192.0.2.1, port": lambda _: with_ports(host="192.0.2.1"),
    "--port 70000: expected a number from 1 to 65535": lambda _: with_ports(port=70000),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_a_class_is_refused_with_the_way_out(message, tmp_path):
    with pytest.raises(install.ClassError, match=message):
        REFUSED[message](tmp_path)


def test_a_class_gets_every_check_and_no_solution():
    """On one machine and on a cluster: both copy these files."""
    files = install.course_files(ROOT)
    rooms = {file for file in files if file.startswith("lessons_src/lessons/")}
    checks = {f"lessons_src/lessons/{path.stem}/checks.py" for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
    checks = {path for path in checks if (ROOT / path).exists()}  # the first lesson's stand in its notebook
    assert checks and rooms == checks | {"lessons_src/lessons/__init__.py"}
    for file, path in files.items():
        assert "solutions" not in Path(file).parts and b"BEGIN SOLUTION" not in path.read_bytes(), file


def test_a_folder_remembers_what_it_was_told_and_its_ports(tmp_path):
    (tmp_path / "hub").mkdir()
    (tmp_path / "names.txt").write_text("mara\n")
    first = command.settings(tmp_path, command.parse(["--learners", f"{tmp_path}/names.txt", "--memory", "1"]))
    command.write_settings(tmp_path, first)
    assert (tmp_path / "hub/settings.json").stat().st_mode & 0o777 == 0o600
    again = command.settings(tmp_path, command.parse(["--idle", "5"]))
    assert again == first | {"idle": 5.0} and again["learners"] == ["mara"] and again["memory"] == 1.0


def test_a_class_runs_once(tmp_path):
    with command.lock(tmp_path) as held:
        child = subprocess.Popen(["sleep", "60"], pass_fds=[held.fileno()])  # as the hub of a killed program
    with pytest.raises(install.ClassError, match=rf"running already \(pid {os.getpid()}\).*--collect, --upgrade"):
        with command.lock(tmp_path):
            pass
    child.kill()
    child.wait()
    with command.lock(tmp_path):
        pass


def test_a_port_in_use_is_refused_and_ports_of_its_own_are_changed():
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(install.ClassError, match=f"Port {taken} is in use.* --port {taken + 1}"):
            with_ports(host="0.0.0.0", port=taken)
        changed = with_ports(hub_port=taken)
        assert changed["hub_port"] != taken
        assert with_ports(**changed) == changed


def test_two_servers_that_start_at_once_get_two_ports(monkeypatch):
    monkeypatch.setattr(ports, "free_port", iter((5, 5, 6)).__next__)
    port_of = {}
    for name in ("li", "mara"):
        port_of[name] = ports.another_port(port_of.values())
    assert port_of == {"li": 5, "mara": 6}


def test_what_to_type_in_a_browser_is_named():
    values = {"host": "127.0.0.1", "port": 8000, "cert": ""}
    assert command.address(values) == "http://127.0.0.1:8000"
    assert command.address(values | {"host": "::1", "cert": "hub.crt"}) == "https://[::1]:8000"
    assert "0.0.0.0" not in command.address(values | {"host": "0.0.0.0"}), "no browser opens that"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_proxy_that_was_left_behind_is_ended_and_nothing_else(tmp_path):
    (tmp_path / "hub").mkdir()
    number = tmp_path / "hub/jupyterhub-proxy.pid"
    wait = [sys.executable, "-c", "import time; time.sleep(60)"]
    name = f"{tmp_path}/course/configurable-http-proxy"
    with subprocess.Popen(wait) as other, subprocess.Popen([*wait, name]) as proxy:
        try:
            for process in (other, proxy):
                while not Path(f"/proc/{process.pid}/cmdline").read_bytes():  # empty for a moment after the start
                    time.sleep(0.01)
                number.write_text(str(process.pid))
                command.end_old_proxy(tmp_path)
                assert not number.exists(), "JupyterHub would end the program that has this number"
            assert proxy.wait(5) == -signal.SIGTERM and other.poll() is None
        finally:
            proxy.kill()
            other.kill()
    command.end_old_proxy(tmp_path)


def test_work_is_collected_without_following_anything(tmp_path):
    home, out, secret = tmp_path / "home", tmp_path / "out", tmp_path / "secret"
    work, copies = home / "work", out / "mara"
    work.mkdir(parents=True)
    for name in ("02_statistics.ipynb", "attempts.jsonl", "inventory.jsonl", "notes.txt"):
        (work / name).write_text("mine")
    secret.write_text("secret")
    (work / "03_link.ipynb").symlink_to(secret)
    os.mkfifo(work / "04_pipe.ipynb")
    (work / "05_folder.ipynb").mkdir()
    with open(work / "06_large.ipynb", "wb") as file:
        file.truncate(collect.LARGEST + 1)
    left_out = collect.collect({"mara": home, "new": tmp_path / "nobody"}, out)
    copied = ["02_statistics.ipynb", "attempts.jsonl", "inventory.jsonl"]
    assert sorted(os.listdir(copies)) == copied
    assert [item for _, item, _ in left_out] == [f"{n}.ipynb" for n in ("03_link", "04_pipe", "05_folder", "06_large")]
    assert (copies / copied[0]).stat().st_mtime_ns == (work / copied[0]).stat().st_mtime_ns
    outside = tmp_path / "outside"
    outside.mkdir()
    (out / "li").symlink_to(outside)  # somebody who could write there has put links in the place of copies
    for name in (collect.RECORD, "mara/attempts.jsonl", f"mara/{collect.PART}"):
        (out / name).unlink(missing_ok=True)
        (out / name).symlink_to(secret)
    assert collect.collect({"mara": home, "li": home}, out)[-1][:2] == ("li", "the folder of the copies")
    assert secret.read_text() == "secret" and not os.listdir(outside)
    assert {(copies / name).read_text() for name in copied} == {"mine"} and not (copies / copied[1]).is_symlink()
    (work / copied.pop(0)).unlink()
    for name in ("feedback.html", "02_feedback.ipynb"):
        (copies / name).write_text("well done")
    collect.collect({"mara": home}, out)
    assert set(os.listdir(copies)) == {"feedback.html", "02_feedback.ipynb", *copied}, "what was not collected stays"
    (home / "away").mkdir()
    shutil.move(work, home / "away")
    work.symlink_to(home / "away/work")
    assert collect.collect({"mara": home}, out)[0][:2] == ("mara", "work"), "nor is a linked folder"


# ------------------------------------------------------------------------------------------------ a class that is run


def _missing():
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a class needs Linux and root: its learners get accounts"
    if not all(shutil.which(name) for name in ("useradd", "userdel", "node")):
        return "a class needs useradd and Node.js (on Debian: apt install passwd nodejs npm)"
    if not (environment.FOLDER / "ready").exists():
        return "there is no .venv-class: make .venv-class/ready"
    try:
        install.public_python()
    except install.ClassError as error:
        return str(error)
    return None


needs_a_machine = pytest.mark.skipif(bool(_missing()), reason=_missing() or "")
LESSON = "work/02_statistics.ipynb"


ON_THE_LIST = ["mara", *(f"p{index}" for index in range(30))]


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    names = tmp_path_factory.mktemp("class") / "names.txt"
    names.write_text("\n".join(ON_THE_LIST))
    with Trial("--learners", str(names)) as running:
        yield running


def edited(notebook, text):
    """Return a notebook with a cell of text at its end."""
    cell = {"cell_type": "markdown", "id": "mine", "metadata": {}, "source": text}
    return notebook | {"cells": [*notebook["cells"], cell]}


async def write(learner, text):
    """Save a learner's lesson with a cell of text at its end."""
    await learner.save(LESSON, edited(await learner.read(LESSON), text))


async def written(learner):
    """Return what stands at the end of a learner's lesson."""
    return (await learner.read(LESSON))["cells"][-1]["source"]


def run(trial, *arguments, **options):
    """Run make class's program on the folder of a class."""
    return subprocess.run(**trial.run(*arguments), capture_output=True, text=True, **options)


def in_a_loop(test):
    """Let pytest run a test that is a coroutine."""
    return functools.wraps(test)(lambda *fixtures, **named: asyncio.run(test(*fixtures, **named)))


async def stop(learner):
    """Stop a learner's server, and wait until the hub says that it is gone."""
    await learner.ask(f"/hub/api/users/{learner.name}/server", "DELETE")
    while (await learner.ask(f"/hub/api/users/{learner.name}"))["servers"]:
        await asyncio.sleep(0.3)


@needs_a_machine
@in_a_loop
async def test_eight_learners_at_once_reach_the_end_of_lesson_2(trial):
    learners = [trial.learner(f"l{index}") for index in range(8)]
    rows = await crowd(learners, ROOT / f"notebooks/{Path(LESSON).name}", trial.uid)
    print(table(rows))
    assert not [row for row in rows if row.get("failed") or row["errors"]], table(rows)
    assert len({row["last"] for row in rows}) == 1, "the last cell says the same to all"
    homes = [Path(user.pw_dir) for user in accounts.members(trial.group).values()]
    assert len(homes) == 8 and all(home.stat().st_mode & 0o777 == 0o700 for home in homes)


@needs_a_machine
@in_a_loop
async def test_none_sees_or_changes_what_is_anothers_or_the_class_s(trial):
    """Everything is tried from a learner's kernel, first on the learner's own things: there it must work."""
    folder, proxy = str(trial.folder), json.loads((trial.folder / "hub/settings.json").read_text())["proxy_port"]

    async def tell(kernel, call):
        return json.loads(await kernel.say(f"import json, os\nprint(json.dumps({call}))"))

    mine, others = await trial.learner("l0").kernel(LESSON), await trial.learner("l1").kernel(LESSON)
    await mine.say((Path(__file__).parent / "classroom_tries.py").read_text())
    facts = "[os.environ['HOME'], os.environ['JUPYTERHUB_SERVICE_URL'], os.getppid()]"
    own = await tell(mine, f"on_a_learner(*{await tell(mine, facts)}, 'l0', {folder!r})")
    assert len(own) == 10 and set(own.values()) == {"done"}, own
    other = await tell(mine, f"on_a_learner(*{await tell(others, facts)}, 'l1', {folder!r})")
    assert set(other.values()) == {"refused"}, other
    the_class = await tell(mine, f"on_the_class({folder!r}, {proxy})")
    assert len(the_class) == 14 and set(the_class.values()) == {"refused"}, the_class


@needs_a_machine
def test_a_class_that_runs_is_not_started_again_and_its_port_is_not_shared(trial, tmp_path):
    """The hub goes on, and so does its proxy, which a second hub would end."""
    proxy = (trial.folder / "hub/jupyterhub-proxy.pid").read_text()
    again = run(trial, "--port", trial.port)
    assert again.returncode == 1 and re.match(rf"This class is running already \(pid {trial.hub.pid}\)", again.stderr)
    (tmp_path / "names.txt").write_text("mara\n")
    options = ["--folder", tmp_path / "second", "--learners", tmp_path / "names.txt", "--port", trial.port]
    other = run(trial, *options)
    assert other.returncode == 1 and re.match(f"Port {trial.port} is in use", other.stderr), other.stderr
    assert not (tmp_path / "second/hub/settings.json").exists(), "the port that was refused is not remembered"
    removed = run(trial, "--remove", input="remove\n")
    assert removed.returncode == 1 and "running already" in removed.stderr
    assert Path(f"/proc/{proxy}/cmdline").read_bytes() and trial.hub.poll() is None
    end = time.monotonic() + 10
    while len(printed := trial.log().splitlines()) < 5 and time.monotonic() < end:
        time.sleep(0.2)
    assert printed[0] == f"Setting up the class in {trial.folder} (once)" and len(printed) == 5, printed
    assert trial.address in printed[2] and str(trial.folder / "hub/hub.log") in printed[2]
    assert "log in as teacher" in printed[3]


@needs_a_machine
def test_a_class_is_removed_when_the_answer_is_yes(tmp_path, monkeypatch, capsys):
    group, others = f"lnrm{os.getpid()}", tmp_path / "folder/others"
    for name in ("hub", "editions/1", "run"):
        (tmp_path / "folder" / name).mkdir(parents=True)
    (tmp_path / "folder/course").symlink_to("editions/1")
    others.write_text("not the class's")
    command.write_settings(tmp_path / "folder", command.OF_A_CLASS | {"group": group, "homes": str(tmp_path)})
    process = None
    try:
        user, reader = accounts.ensure(group, "mara", tmp_path), accounts.ensure_reader(group)
        closed = Path(user.pw_dir) / "closed/deeper"
        closed.mkdir(parents=True)
        (closed / "link").symlink_to(others)
        for path in (closed.parent, closed):
            os.chown(path, user.pw_uid, user.pw_gid)
            path.chmod(0)
        process = subprocess.Popen(["sleep", "60"], user=user.pw_uid)
        for answer, code in (("no", 1), ("remove", 0)):
            monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
            assert command.main(["--folder", str(tmp_path / "folder"), "--remove"]) == code
            assert bool(accounts.members(group)) == Path(user.pw_dir).exists() == bool(code)
        assert "This removes 1 account with all work" in capsys.readouterr().out
        assert process.wait(5) == -signal.SIGKILL
        assert list((tmp_path / "folder").iterdir()) == [others]
        left = [Path("/etc", name).read_text() for name in ("group", "passwd")]
        assert group not in "".join(left) and reader.pw_name.startswith(group)
    finally:
        if process:
            process.kill()
        accounts.remove(group, tmp_path)


class Browser:
    """Opens the login page, logs in and follows redirects, as a browser does that comes from an address of 127/8."""

    def __init__(self, trial, source="127.0.0.1"):
        self.address, self.session = trial.address, requests.Session()
        self.session.trust_env, self.session.verify = False, trial.certificate
        for adapter in self.session.adapters.values():
            adapter.poolmanager.connection_pool_kw["source_address"] = (source, 0)
        self.open("/hub/login")

    def open(self, path, **fields):
        """Return (status, text)."""
        if fields:
            fields["_xsrf"] = next(cookie.value for cookie in self.session.cookies if cookie.name == "_xsrf")
        answer = self.session.request("POST" if fields else "GET", self.address + path, data=fields, timeout=60)
        return answer.status_code, answer.text

    def send(self, name, password):
        return self.open("/hub/login?next=/hub/home", username=name, password=password)

    def log_in(self, name, password):
        return self.send(name, password)[0] == 200


def slips(trial):
    """Return {name: password} of the list that the instructor hands out."""
    with open(trial.folder / "hub/passwords.csv", newline="") as file:
        return dict(csv.reader(file))


def logged_in(trial, name="teacher"):
    """Return the Browser of somebody who has the password of the list."""
    browser = Browser(trial)
    assert browser.log_in(name, slips(trial)[name])
    return browser


@needs_a_machine
def test_only_who_has_the_password_logs_in_and_only_the_instructor_sees_the_class(trial):
    handed_out = slips(trial)
    assert set(handed_out) == {"teacher", *ON_THE_LIST} and len(set(handed_out.values())) == 32
    for name, password in (("mara", "guessed-password"), ("teacher", "a-new-password"), ("stranger", "long-enough-1")):
        assert not Browser(trial).log_in(name, password), f"{name} came in"
    time.sleep(1)
    mara, teacher = logged_in(trial, "mara"), logged_in(trial)
    assert mara.open("/services/progress/")[0] == 403 and mara.open("/hub/admin")[0] == 403
    status, page = teacher.open("/services/progress/")
    assert status == 200 and ("l3" in page) == bool(accounts.members(trial.group)), page[:2000]
    assert "mara" in page and "not yet here" in page, "on the list, and never here"
    status, page = teacher.open("/services/progress/?lesson=2")
    assert set(re.findall(r'<th scope="col"[^>]*>(\d+)\.\d+', page)) == {"2"} and 'href="?lesson=03">3</a>' in page
    columns = str(1 + page.count('<th scope="col" class'))
    assert re.search(r'>mara</th><td colspan="(\d+)"', page)[1] == columns
    assert "no lesson &lt;b&gt;" in teacher.open("/services/progress/?lesson=%3Cb%3E")[1]


THIRTY, SIXTY = ON_THE_LIST[1:], range(60)
WRONG = {  # sixty at once: (name, where from, password)
    "one name": [("p0", "127.0.1.1", "wrong-one")] * 60,
    "one name, sixty addresses": [("p1", f"127.0.2.{index + 1}", "wrong-one") for index in SIXTY],
    "thirty names": [(name, "127.0.3.1", "wrong-one") for name in THIRTY * 2],
    "thirty names, sixty addresses": [(name, f"127.0.4.{i + 1}", "wrong-one") for i, name in enumerate(THIRTY * 2)],
    "names of nobody": [(f"x{index}", "127.0.5.1", "wrong-one") for index in SIXTY],
    "long passwords": [(name, "127.0.6.1", "x" * 100_000) for name in THIRTY * 2],
    "the teacher's name": [("teacher", "127.0.7.1", "wrong-one")] * 60,
}


@needs_a_machine
@pytest.mark.alone
def test_wrong_passwords_keep_nobody_waiting(trial):
    password = slips(trial)["teacher"]
    assert Browser(trial).log_in("teacher", password), "from now on this address is known"
    seconds = {}
    for case, tries in WRONG.items():
        with ThreadPoolExecutor(60) as pool:
            forms = list(pool.map(lambda source: Browser(trial, source), [source for _, source, _ in tries]))
            answers = [pool.submit(form.send, name, text) for form, (name, _, text) in zip(forms, tries, strict=True)]
            seconds[case] = []
            while not seconds[case] or not all(answer.done() for answer in answers):
                begin = time.monotonic()
                assert Browser(trial).log_in("teacher", password), case
                seconds[case].append(time.monotonic() - begin)
        pages = [answer.result() for answer in answers]
        assert case != "one name" or sum("That password was wrong. Wait" in page for _, page in pages) > 50
        for status, page in pages:
            assert status == 403 and re.search("Invalid username or password|That password was wrong", page), page
    print({case: [round(max(values), 2), len(values)] for case, values in seconds.items()}, os.getloadavg())
    assert max(map(max, seconds.values())) < 2, seconds


@needs_a_machine
def test_a_forgotten_password_interrupts_nobody(trial):
    old, hub = slips(trial), trial.hub.pid
    inside = logged_in(trial, "mara")
    answer = run(trial, "--password", "Mara")
    new = slips(trial)
    assert answer.returncode == 0 and new["mara"] in answer.stdout and new["mara"] != old["mara"]
    assert (trial.folder / "hub/passwords.csv").stat().st_mode & 0o777 == 0o600 and list(new) == list(old)
    assert new["teacher"] == old["teacher"], "in the old one's place"
    assert not Browser(trial).log_in("mara", old["mara"])
    time.sleep(1)
    assert logged_in(trial, "mara") and logged_in(trial)
    assert inside.open("/hub/home")[0] == 200 and trial.hub.pid == hub and trial.hub.poll() is None
    stranger = run(trial, "--password", "stranger")
    assert stranger.returncode == 1 and "There is no stranger in this class" in stranger.stderr


@needs_a_machine
@in_a_loop
async def test_a_killed_server_comes_back_with_its_work(trial):
    learner = trial.learner("l2")
    kernel = await learner.kernel(LESSON)
    await write(learner, "before the crash")
    await kernel.run(["from lessonkit import check", 'check.recall("2.1", "c")'])
    server = int(await kernel.say("import os; print(os.getppid())"))
    os.kill(server, signal.SIGKILL)
    while await learner.running():  # until the hub has noticed
        await asyncio.sleep(0.5)
    await learner.start()
    assert await written(learner) == "before the crash"
    assert await (await learner.kernel(LESSON)).say("print(2)") == "2"
    log = (trial.home("l2") / "work/attempts.jsonl").read_text()
    assert '"right"' in log, "the log of attempts is the learner's"


def background(kernel):
    """Start a program in a session of its own from a kernel; return its number."""
    program = "subprocess.Popen(['sleep', '600'], start_new_session=True)"
    return kernel.say(f"import subprocess; program = {program}; print(program.pid)")


@needs_a_machine
def test_the_page_of_the_class_is_made_by_an_account_that_can_change_nothing(trial):
    assert logged_in(trial).open("/services/progress/")[0] == 200
    reader = accounts.ensure_reader(trial.group)
    assert reader.pw_name == f"{trial.group}_progress" and reader.pw_uid
    as_reader = {"user": reader.pw_uid, "group": reader.pw_gid, "extra_groups": []}
    copies = trial.folder / "progress"
    for act, code in (
        (f"cat {copies}/l0/02_statistics.ipynb", 0),
        (f"touch {copies}/x", 1),
        (f"touch {copies}/l0/x", 1),
    ):
        assert subprocess.run(["sh", "-c", act], **as_reader, capture_output=True).returncode == code, act
    assert not [path for path in copies.rglob("*") if path.is_symlink() or path.stat().st_uid]


@needs_a_machine
@in_a_loop
async def test_a_kernel_that_asks_for_too_much_is_told_the_limit_and_goes_on(trial):
    kernel = await trial.learner("l3").kernel(LESSON)
    await kernel.say("x = 1")
    plain = await kernel.say("y = bytearray(3 << 30)")
    assert "a kernel has 2.5 GB" in plain and "MemoryError" in plain
    tensor = await kernel.say("import torch; z = torch.zeros(1 << 30)")
    assert "a kernel has 2.5 GB" in tensor and "DefaultCPUAllocator" in tensor
    threads = "import threading, time\nfor _ in range(600): threading.Thread(target=time.sleep, args=(1,)).start()"
    assert "can't start new thread" in await kernel.say(threads)
    assert await kernel.say("print(x + 1)") == "2"


@needs_a_machine
@in_a_loop
async def test_a_full_disk_loses_nothing(trial):
    """The home of this learner is a disk of its own, at first too small for the lessons, then with room for some."""
    home = Path(accounts.ensure(trial.group, "full", trial.homes).pw_dir)
    about = home.stat()
    options = f"size=256k,uid={about.st_uid},gid={about.st_gid},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", home], check=True)
    learner, path = trial.learner("full"), home / LESSON
    lessons = len(list((ROOT / "notebooks").glob("*.ipynb")))

    async def restart():
        await stop(learner)
        await learner.start()

    with pytest.raises(client.Refused, match="disk is full.* Lessons of .* MB are still to come"):
        await learner.start()
    await learner.start()  # as the message says: without the lessons, to make room
    for copy in (home / "work").glob("*"):
        json.loads(copy.read_text())  # what is there is whole
    assert len(list((home / "work").glob("*"))) < lessons
    subprocess.run(["mount", "-o", "remount,size=12m", home], check=True)
    await restart()
    assert len(list((home / "work").glob("*.ipynb"))) == lessons
    await write(learner, "first")
    on_disk = path.read_bytes()
    fill = "with open(os.path.expanduser('~/filler'), 'ab') as f:\n    while True: f.write(bytes(1024)); f.flush()"
    printed = await (await learner.kernel(LESSON)).say(f"import os\n{fill}")
    assert "No space left" in printed
    for text in ("second", "third"):  # saved again and again, as JupyterLab does every 15 seconds
        with pytest.raises(client.Refused, match="Your disk is full") as refused:
            await write(learner, text)
        assert refused.value.status == 507 and path.read_bytes() == on_disk
    with pytest.raises(client.Refused, match="disk is full.* What you saved is there"):
        await restart()
    await learner.start()  # on a full disk, to make room
    assert await written(learner) == "first" and path.read_bytes() == on_disk
    await learner.ask("/user/full/api/contents/filler", "DELETE")
    await write(learner, "fourth")
    assert await written(learner) == "fourth"


@needs_a_machine
@in_a_loop
async def test_an_upgrade_touches_nobodys_work(trial, tmp_path):
    newer = tmp_path / "newer"
    for name, source in install.course_files(ROOT).items():
        (newer / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, newer / name)
    lesson = json.loads((newer / "notebooks/02_statistics.ipynb").read_text())
    lesson["metadata"]["lesson"]["cells"] = "newer" + lesson["metadata"]["lesson"]["cells"]
    (newer / "notebooks/02_statistics.ipynb").write_text(json.dumps(edited(lesson, "of the newer edition")))
    learner = trial.learner("l4")
    edition = (trial.folder / "course").resolve()
    kernel = await learner.kernel(LESSON)
    home = trial.home("l4")
    await write(learner, "my own")
    before = {path: path.read_bytes() for path in (home / "work").glob("*.ipynb")}
    code = f"install.install({str(trial.folder)!r}, pathlib.Path({str(newer)!r}))"
    code = f"import pathlib; from teaching.classroom import install; {code}"
    subprocess.run([ROOT / ".venv/bin/python", "-c", code], cwd=ROOT, check=True)
    assert (trial.folder / "course").resolve() != edition
    where = "import lessonkit.plot; print(lessonkit.__file__)"
    assert str(edition) in await kernel.say(where), "what runs goes on with its own edition"
    program = Path("/proc", await background(kernel), "cmdline")
    assert program.read_bytes()
    await stop(learner)
    assert not program.exists() or not program.read_bytes(), "what a learner started ends with the server"
    await learner.start()
    assert {path: path.read_bytes() for path in (home / "work").glob("*.ipynb")} == before
    kernel = await learner.kernel(LESSON)
    assert str((trial.folder / "course").resolve()) in await kernel.say(where)
    page = await learner.read("NEWER_LESSONS.md")
    typed = re.search(r"`work/02_statistics.ipynb`: `(.+)`", page)[1]
    printed = await kernel.say(f"import subprocess; print(subprocess.check_output({typed.split()!r}, text=True))")
    (beside,) = set((home / "work").glob("*.ipynb")) - set(before)
    assert "of the newer edition" in beside.read_text() and beside.name in printed


@needs_a_machine
@in_a_loop
async def test_a_killed_hub_loses_nothing_and_then_stops_what_is_idle(trial):
    learner = trial.learner("l5")
    kernel = await learner.kernel(LESSON)
    await kernel.say("kept = 41")
    await write(learner, "while the hub was there")
    trial.kill()
    assert list((trial.folder / "run/l5").glob("kernel-*.json")), "the learner's kernel goes on"
    trial.start()
    assert await learner.running()
    assert await (await learner.connect(kernel.name)).say("print(kept + 1)") == "42"
    assert logged_in(trial).open("/services/progress/")[0] == 200, "the page comes back too"
    trial.kill()
    trial.start("--idle", "0.1")
    end = time.monotonic() + 90
    while await learner.running():
        assert time.monotonic() < end, "a server that nobody used for six seconds is still there"
        await asyncio.sleep(0.5)
    assert "while the hub was there" in (trial.home("l5") / LESSON).read_text()


@needs_a_machine
@in_a_loop
async def test_https_with_a_certificate(trial, tmp_path):
    certificate, key = tmp_path / "hub.crt", tmp_path / "hub.key"
    sign = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=class"]
    sign += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate, "-keyout", key]
    subprocess.run(sign, check=True, capture_output=True)
    trial.kill()
    trial.certificate = str(certificate)
    trial.start("--idle", "60", "--cert", certificate, "--key", key)
    assert trial.address == f"https://127.0.0.1:{trial.port}"
    cookies = [cookie for cookie in logged_in(trial).session.cookies if re.search("token|hub", cookie.name)]
    assert {cookie.secure for cookie in cookies} == {True}
    learner = trial.learner("l7")
    await learner.start()  # the class before stopped what was idle; with --idle 60 as anybody would type it
    await write(learner, "over https")
    assert await (await learner.kernel(LESSON)).say("print(6 * 7)") == "42"
    with pytest.raises((OSError, http.client.HTTPException)):
        urllib.request.urlopen(f"http://127.0.0.1:{trial.port}/hub/login", timeout=5)


@needs_a_machine
@in_a_loop
async def test_ctrl_c_ends_a_class_in_two_lines(trial):
    """Comes last: the class is over then."""
    program = Path("/proc", await background(await trial.learner("l7").kernel(LESSON)), "cmdline")
    trial.hub.send_signal(signal.SIGINT)
    assert trial.hub.wait(150) == 0  # half a minute on a quiet machine; a hub that hangs never ends
    first, second = trial.log().splitlines()[-2:]
    assert first.startswith("Stopping every server") and second.startswith("The class has ended.")
    log = (trial.folder / "hub/hub.log").read_text()
    assert "KeyboardInterrupt" not in log and (trial.folder / "hub/hub.log").stat().st_mode & 0o777 == 0o600
    assert not program.exists() or not program.read_bytes()
    with pytest.raises(OSError):
        urllib.request.urlopen(trial.address, timeout=5)
