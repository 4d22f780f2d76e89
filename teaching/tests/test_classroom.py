"""A class on one machine: eight learners at once, what none may do, and that nothing is lost when something breaks."""

import csv
import grp
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from teaching.classroom import __main__ as command
from teaching.classroom import accounts, client, collect, environment, install, passwords
from teaching.classroom.trial import Trial, crowd, table

ROOT = install.ROOT


# --------------------------------------------------------------------------------------------- what needs no machine


def test_a_list_of_names_is_read_and_what_is_wrong_is_named(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("\ufeffMara\n\n  li2  # second row\n", encoding="utf-8")
    assert accounts.read_names(path) == ["mara", "li2"]
    wrong = {b"li\nmara\nLI\n": "line 3: 'li' is on line 1 already", b"j\xfcrgen": "is not plain text"}
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


def entry(name, home, uid=None):
    """Return an account as the system's list has it, of the user and the group that run this test."""
    return pwd.struct_passwd((name, "x", os.getuid() if uid is None else uid, os.getgid(), "", str(home), "/bin/sh"))


def test_no_folder_is_deleted_but_the_accounts_own_home(tmp_path, monkeypatch):
    homes = tmp_path / "homes"
    mine, other = homes / "g-mara", homes / "g-else"
    for folder in (other, mine / "g-mara"):
        folder.mkdir(parents=True)
    (homes / "g-link").symlink_to(tmp_path)
    refused = [
        entry("g-mara", "/"),
        entry("g-mara", other),
        entry("g-mara", mine / "g-mara"),
        entry("g-link", homes / "g-link"),
        entry("g-else", other, uid=os.getuid() + 1),
        entry("..", mine / ".."),
    ]
    group = grp.getgrgid(os.getgid()).gr_name
    monkeypatch.setattr(accounts.subprocess, "run", lambda *command, **_: pytest.fail(f"{command}"))
    monkeypatch.setattr(accounts.os, "rmdir", lambda path: pytest.fail(f"rmdir {path}"))
    for user in refused:
        monkeypatch.setattr(accounts, "_entry", lambda *_, user=user: user)
        acts = (
            lambda user: accounts.delete_home(user, homes),
            accounts.delete_account,
            lambda user: accounts.ensure(group, user.pw_name.removeprefix("g-"), homes),
        )
        for act in acts:
            with pytest.raises(PermissionError):
                act(user)
    monkeypatch.setattr(accounts.os.path, "ismount", lambda _: True)
    with pytest.raises(PermissionError, match="disk of its own"):
        accounts.delete_home(entry("g-mara", mine), homes)
    with pytest.raises(PermissionError, match="root"):
        accounts.end_processes([entry("root", "/root", uid=0)])


def holding_something_else(folder):
    (folder / "run").mkdir()
    with command.lock(folder):
        pass


REFUSED = {  # what is said: what is tried, in an empty folder
    "not a class's.* --folder": holding_something_else,
    "make notebooks": install.course_files,
    "--learners names.txt .*--open": lambda folder: command.settings(folder, command.parse([])),
    "--cert and --key": lambda folder: command.settings(folder, command.parse(["--open", "--cert", "a.pem"])),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_a_class_is_refused_with_the_way_out(message, tmp_path):
    with pytest.raises(install.ClassError, match=message):
        REFUSED[message](tmp_path)


def test_a_class_gets_every_check_and_no_solution():
    """On one machine and on a cluster: both copy these files."""
    files = install.course_files(ROOT)
    rooms = {file for file in files if file.startswith("lessons_src/lessons/")}
    checks = {path.relative_to(ROOT).as_posix() for path in (ROOT / "lessons_src/lessons").glob("*/checks.py")}
    assert checks and rooms == checks | {"lessons_src/lessons/__init__.py"}
    for file, path in files.items():
        assert "solutions" not in Path(file).parts and b"BEGIN SOLUTION" not in path.read_bytes(), file


def test_work_is_collected_without_following_anything(tmp_path):
    home, out, secret = tmp_path / "home", tmp_path / "out", tmp_path / "secret"
    work, copies = home / "work", out / "mara"
    work.mkdir(parents=True)
    copied = ["02_statistics.ipynb", "attempts.jsonl", "inventory.jsonl"]
    for name in (*copied, "notes.txt"):
        (work / name).write_text("mine")
    secret.write_text("secret")
    (work / "03_link.ipynb").symlink_to(secret)
    os.mkfifo(work / "04_pipe.ipynb")
    (work / "05_folder.ipynb").mkdir()
    with open(work / "06_large.ipynb", "wb") as file:
        file.truncate(collect.LARGEST + 1)
    left_out = collect.collect({"mara": home, "new": tmp_path / "nobody"}, out)
    assert sorted(os.listdir(copies)) == copied
    assert [item for _, item, _ in left_out] == [f"{n}.ipynb" for n in ("03_link", "04_pipe", "05_folder", "06_large")]
    assert (copies / copied[0]).stat().st_mtime_ns == (work / copied[0]).stat().st_mtime_ns

    outside = tmp_path / "outside"
    outside.mkdir()
    (out / "li").symlink_to(outside)  # somebody who could write there has put links in the place of copies
    for name in ("attempts.jsonl", collect.PART):
        (copies / name).unlink(missing_ok=True)
        (copies / name).symlink_to(secret)
    assert collect.collect({"mara": home, "li": home}, out)[-1][:2] == ("li", "the folder of the copies")
    assert secret.read_text() == "secret" and not os.listdir(outside)
    assert {(copies / name).read_text() for name in copied} == {"mine"} and not (copies / copied[1]).is_symlink()
    shutil.move(work, home / "away")
    work.symlink_to(home / "away")
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


def write(learner, text):
    """Save a learner's lesson with a cell of text at its end."""
    learner.save(LESSON, edited(learner.read(LESSON), text))


def written(learner):
    """Return what stands at the end of a learner's lesson."""
    return learner.read(LESSON)["cells"][-1]["source"]


def run(trial, *arguments, **options):
    """Run make class's program on the folder of a class."""
    return subprocess.run(**trial.run(*arguments), capture_output=True, text=True, **options)


def until(true, seconds=90):
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.3)


def stop(learner):
    """Stop a learner's server, and wait until the hub says that it is gone."""
    learner.ask(f"/hub/api/users/{learner.name}/server", "DELETE")
    until(lambda: not learner.ask(f"/hub/api/users/{learner.name}")["servers"])


def background(kernel):
    """Start a program in a session of its own from a kernel; return a function that says whether it runs."""
    program = "subprocess.Popen(['sleep', '600'], start_new_session=True)"
    number = kernel.say(f"import subprocess; program = {program}; print(program.pid)")
    line = Path("/proc", number, "cmdline")
    assert line.read_bytes()
    return lambda: line.exists() and bool(line.read_bytes())


@needs_a_machine
def test_eight_learners_at_once_reach_the_end_of_lesson_2(trial):
    rows = crowd([trial.learner(f"l{index}") for index in range(8)], ROOT / f"notebooks/{Path(LESSON).name}", trial.uid)
    print(table(rows))
    assert not any(row["errors"] for row in rows), table(rows)
    assert len({row["last"] for row in rows}) == 1, "the last cell says the same to all"
    homes = [Path(user.pw_dir) for user in accounts.members(trial.group).values()]
    assert len(homes) == 8 and all(home.stat().st_mode & 0o777 == 0o700 for home in homes)


ON_A_LEARNER = [  # home, server (its address behind the proxy), pid, run (the folder of its sockets) are the learner's
    "os.listdir(home)",
    "open(f'{home}/work/02_statistics.ipynb', 'a').close()",
    "open(f'{home}/made', 'w').close()",
    "open(f'/proc/{pid}/environ', 'rb').read()",
    "os.kill(pid, signal.SIGCONT)",
    "os.listdir(run) and open(glob.glob(f'{run}/kernel-*.json')[0])",
    "call(f'{server}api/contents/work')",
    "call(f'{server}api/kernels')",
]
ON_THE_CLASS = [
    *(f"open(f'{{folder}}/course/{path}', 'a')" for path in ("lessons_src/lab.py", "environment/bin/python", "new")),
    *(f"open(f'{{folder}}/hub/{name}')" for name in ("hub.sqlite", "cookie_secret", "passwords.csv", "settings.json")),
    "os.listdir(f'{folder}/hub')",
    "os.rename(f'{folder}/course', f'{folder}/course2')",
    "call(os.environ['JUPYTERHUB_API_URL'] + '/users')",
    "call(f'http://127.0.0.1:{proxy}/api/routes')",
]


@needs_a_machine
def test_none_sees_or_changes_what_is_anothers_or_the_class_s(trial):
    """Everything is tried from a learner's kernel, first on the learner's own things: there it must work."""
    proxy = json.loads((trial.folder / "hub/settings.json").read_text())["proxy_port"]
    mine, others = (trial.learner(name).kernel(LESSON) for name in ("l0", "l1"))
    mine.say((Path(__file__).parent / "classroom_tries.py").read_text())

    def outcomes(acts, names):
        return json.loads(mine.say(f"tried({acts!r}, **{names!r})"))

    def of(kernel, name):
        facts = "dict(home=os.environ['HOME'], server=os.environ['JUPYTERHUB_SERVICE_URL'], pid=os.getppid())"
        about = json.loads(kernel.say(f"import json, os\nprint(json.dumps({facts}))"))
        return outcomes(ON_A_LEARNER, about | {"run": f"{trial.folder}/run/{name}"})

    assert set((own := of(mine, "l0")).values()) == {"done"}, own
    assert set((other := of(others, "l1")).values()) == {"refused"}, other
    the_class = outcomes(ON_THE_CLASS, {"folder": str(trial.folder), "proxy": proxy})
    assert set(the_class.values()) == {"refused"}, the_class


@needs_a_machine
def test_a_class_that_runs_is_not_started_again_and_its_port_is_not_shared(trial, tmp_path):
    """The hub goes on, and so does its proxy, which a second hub would end."""
    proxy = (trial.folder / "hub/jupyterhub-proxy.pid").read_text()
    (tmp_path / "names.txt").write_text("mara\n")
    second = ["--folder", tmp_path / "second", "--learners", tmp_path / "names.txt", "--port", trial.port]
    tries = [
        (run(trial), rf"This class is running already \(pid {trial.hub.pid}\).*--collect, --upgrade"),
        (run(trial, "--remove", input="remove\n"), "This class is running already"),
        (run(trial, *second), f"Port {trial.port} is in use.* --port {trial.port + 1}"),
    ]
    for tried, why in tries:
        assert tried.returncode == 1 and re.match(why, tried.stderr), tried.stderr
    assert not (tmp_path / "second/hub/settings.json").exists(), "the port that was refused is not remembered"
    assert Path(f"/proc/{proxy}/cmdline").read_bytes() and trial.hub.poll() is None
    printed = trial.log().splitlines()
    assert printed[0] == f"Setting up the class in {trial.folder} (once)" and len(printed) == 5, printed
    assert trial.address in printed[2] and "log in as teacher" in printed[3]


@needs_a_machine
def test_a_class_is_removed_when_the_answer_is_yes(tmp_path, monkeypatch, capsys):
    group, folder = f"lnrm{os.getpid()}", tmp_path / "folder"
    others = folder / "others"
    for name in ("hub", "editions/1", "run"):
        (folder / name).mkdir(parents=True)
    (folder / "course").symlink_to("editions/1")
    others.write_text("not the class's")
    command.write_settings(folder, command.OF_A_CLASS | {"group": group, "homes": str(tmp_path)})
    process = None
    try:
        user, _ = accounts.ensure(group, "mara", tmp_path), accounts.ensure_reader(group)
        closed = Path(user.pw_dir) / "closed/deeper"
        closed.mkdir(parents=True)
        (closed / "link").symlink_to(others)
        for path in (closed.parent, closed):
            os.chown(path, user.pw_uid, user.pw_gid)
            path.chmod(0)
        process = subprocess.Popen(["sleep", "60"], user=user.pw_uid)
        for answer, code in (("no", 1), ("remove", 0)):
            monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
            assert command.main(["--folder", str(folder), "--remove"]) == code
            assert bool(accounts.members(group)) == Path(user.pw_dir).exists() == bool(code)
        assert "This removes 1 account with all work" in capsys.readouterr().out
        assert process.wait(5) == -signal.SIGKILL
        assert list(folder.iterdir()) == [others]
        assert not any(group in Path("/etc", name).read_text() for name in ("group", "passwd"))
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
def test_only_who_has_the_password_logs_in_and_a_forgotten_one_interrupts_nobody(trial):
    old = slips(trial)
    assert set(old) == {"teacher", *ON_THE_LIST} and len(set(old.values())) == 32
    for name, password in (("mara", "guessed-password"), ("teacher", "a-new-password"), ("stranger", "long-enough-1")):
        assert not Browser(trial).log_in(name, password), f"{name} came in"
    time.sleep(1)
    inside = logged_in(trial, "mara")
    answer = run(trial, "--password", "Mara")
    new = slips(trial)
    assert answer.returncode == 0 and new["mara"] in answer.stdout and new["mara"] != old["mara"]
    assert new == old | {"mara": new["mara"]} and (trial.folder / "hub/passwords.csv").stat().st_mode & 0o777 == 0o600
    assert not Browser(trial).log_in("mara", old["mara"])
    time.sleep(1)
    assert logged_in(trial, "mara") and inside.open("/hub/home")[0] == 200
    assert "There is no stranger in this class" in run(trial, "--password", "stranger").stderr


@needs_a_machine
def test_the_page_of_the_class_is_the_instructor_s_and_its_maker_can_change_nothing(trial):
    mara, teacher = logged_in(trial, "mara"), logged_in(trial)
    assert mara.open("/services/progress/")[0] == 403 and mara.open("/hub/admin")[0] == 403
    status, page = teacher.open("/services/progress/")
    assert status == 200 and "l3" in page and "mara" in page, page[:2000]
    status, page = teacher.open("/services/progress/?lesson=2")
    assert set(re.findall(r'<th scope="col"[^>]*>(\d+)\.\d+', page)) == {"2"} and 'href="?lesson=03">3</a>' in page
    columns = 1 + page.count('<th scope="col" class')
    assert re.search(r'>mara</th><td colspan="(\d+)"[^>]*>not yet here', page)[1] == str(columns)
    assert "no lesson &lt;b&gt;" in teacher.open("/services/progress/?lesson=%3Cb%3E")[1]
    reader, copies = accounts.ensure_reader(trial.group), trial.folder / "progress"
    as_reader = {"user": reader.pw_uid, "group": reader.pw_gid, "extra_groups": []}
    acts = {f"cat {copies}/l0/02_statistics.ipynb": 0, f"touch {copies}/x": 1, f"touch {copies}/l0/x": 1}
    for act, code in acts.items():
        assert subprocess.run(["sh", "-c", act], **as_reader, capture_output=True).returncode == code, act


SIXTY = range(60)
WRONG = {  # sixty at once: (name, where from, password)
    "one name": [("p0", "127.0.1.1", "wrong-one")] * 60,
    "many names and addresses": [(f"p{1 + i % 29}", f"127.0.4.{i + 1}", "wrong-one") for i in SIXTY],
    "names of nobody": [(f"x{i}", "127.0.5.1", "wrong-one") for i in SIXTY],
    "long passwords": [(f"p{1 + i % 29}", "127.0.6.1", "x" * 100_000) for i in SIXTY],
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
def test_a_kernel_is_told_its_limits_and_a_killed_server_comes_back_with_its_work(trial):
    learner = trial.learner("l2")
    kernel = learner.kernel(LESSON)
    threads = "import threading, time\nfor _ in range(600): threading.Thread(target=time.sleep, args=(1,)).start()"
    asks = {
        "x = bytearray(3 << 30)": "a kernel has 2.5 GB.*MemoryError",
        "import torch; x = torch.zeros(1 << 30)": "a kernel has 2.5 GB.*DefaultCPUAllocator",
        threads: "can't start new thread",
    }
    for code, told in asks.items():
        assert re.search(told, kernel.say(code), re.DOTALL)
    write(learner, "before the crash")
    kernel.run(["from lessonkit import check", 'check.recall("2.1", "c")'])
    os.kill(int(kernel.say("import os; print(os.getppid())")), signal.SIGKILL)
    until(lambda: not learner.running())  # until the hub has noticed
    learner.start()
    assert written(learner) == "before the crash" and learner.kernel(LESSON).say("print(2)") == "2"
    log = (trial.home("l2") / "work/attempts.jsonl").read_text()
    assert '"right"' in log, "the log of attempts is the learner's"


@needs_a_machine
def test_a_full_disk_loses_nothing(trial):
    """The home of this learner is a disk of its own, at first too small for the lessons, then with room for some."""
    home = Path(accounts.ensure(trial.group, "full", trial.homes).pw_dir)
    about = home.stat()
    options = f"size=256k,uid={about.st_uid},gid={about.st_gid},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", home], check=True)
    learner, path = trial.learner("full"), home / LESSON
    lessons = len(list((ROOT / "notebooks").glob("*.ipynb")))
    with pytest.raises(client.Refused, match="disk is full.* Lessons of .* MB are still to come"):
        learner.start()
    learner.start()  # as the message says: without the lessons, to make room
    assert len(list((home / "work").glob("*"))) < lessons
    subprocess.run(["mount", "-o", "remount,size=12m", home], check=True)
    stop(learner)
    learner.start()
    assert len(list((home / "work").glob("*.ipynb"))) == lessons
    write(learner, "first")
    on_disk = path.read_bytes()
    fill = "with open(os.path.expanduser('~/filler'), 'ab') as f:\n    while True: f.write(bytes(1024)); f.flush()"
    assert "No space left" in learner.kernel(LESSON).say(f"import os\n{fill}")
    for text in ("second", "third"):  # saved again and again, as JupyterLab does every 15 seconds
        with pytest.raises(client.Refused, match="Your disk is full") as refused:
            write(learner, text)
        assert refused.value.status == 507 and path.read_bytes() == on_disk
    stop(learner)
    with pytest.raises(client.Refused, match="disk is full.* What you saved is there"):
        learner.start()
    learner.start()  # on a full disk, to make room
    assert written(learner) == "first" and path.read_bytes() == on_disk
    learner.ask("/user/full/api/contents/filler", "DELETE")
    write(learner, "fourth")
    assert written(learner) == "fourth"


@needs_a_machine
def test_an_upgrade_touches_nobodys_work(trial, tmp_path):
    files, learner, edition = install.course_files(ROOT), trial.learner("l4"), (trial.folder / "course").resolve()
    install.copy(files, tmp_path)
    newer = tmp_path / "notebooks/02_statistics.ipynb"
    lesson = json.loads(newer.read_text())
    lesson["metadata"]["lesson"]["cells"] = "newer" + lesson["metadata"]["lesson"]["cells"]
    newer.write_text(json.dumps(edited(lesson, "of the newer edition")))
    kernel = learner.kernel(LESSON)
    work = trial.home("l4") / "work"
    write(learner, "my own")
    before = {path: path.read_bytes() for path in work.glob("*.ipynb")}
    code = f"install.install({str(trial.folder)!r}, pathlib.Path({str(tmp_path)!r}))"
    code = f"import pathlib; from teaching.classroom import install; {code}"
    subprocess.run([ROOT / ".venv/bin/python", "-c", code], cwd=ROOT, check=True)
    where = "import lessonkit.plot; print(lessonkit.__file__)"
    assert str(edition) in kernel.say(where), "what runs goes on with its own edition"
    runs = background(kernel)
    stop(learner)
    assert not runs(), "what a learner started ends with the server"
    learner.start()
    assert {path: path.read_bytes() for path in work.glob("*.ipynb")} == before
    kernel, now = learner.kernel(LESSON), (trial.folder / "course").resolve()
    assert now != edition and str(now) in kernel.say(where)
    typed = re.search(r"`work/02_statistics.ipynb`: `(.+)`", learner.read("NEWER_LESSONS.md"))[1]
    printed = kernel.say(f"import subprocess; print(subprocess.check_output({typed.split()!r}, text=True))")
    (beside,) = set(work.glob("*.ipynb")) - set(before)
    assert "of the newer edition" in beside.read_text() and beside.name in printed


@needs_a_machine
def test_a_killed_hub_loses_nothing_comes_back_with_https_and_stops_what_is_idle(trial, tmp_path):
    certificate, key = tmp_path / "hub.crt", tmp_path / "hub.key"
    sign = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=class"]
    sign += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate, "-keyout", key]
    subprocess.run(sign, check=True, capture_output=True)
    learner = trial.learner("l5")
    learner.kernel(LESSON).say("kept = 41")
    write(learner, "while the hub was there")
    trial.kill()
    assert list((trial.folder / "run/l5").glob("kernel-*.json")), "the learner's kernel goes on"
    trial.certificate = str(certificate)
    trial.start("--cert", certificate, "--key", key)
    assert trial.address == f"https://127.0.0.1:{trial.port}"
    learner = trial.learner("l5")
    assert learner.kernel(LESSON).say("print(kept + 1)") == "42"
    teacher = logged_in(trial)
    cookies = [cookie for cookie in teacher.session.cookies if re.search("token|hub", cookie.name)]
    assert {cookie.secure for cookie in cookies} == {True}
    assert teacher.open("/services/progress/")[0] == 200, "the page comes back too"
    trial.kill()
    trial.start("--idle", "0.5")
    assert trial.address.startswith("https"), "the folder remembers what it was told"
    until(lambda: not learner.running())  # nobody used it for half a minute
    assert "while the hub was there" in (trial.home("l5") / LESSON).read_text()


@needs_a_machine
def test_ctrl_c_ends_a_class_in_two_lines(trial):
    """Comes last: the class is over then."""
    runs = background(trial.learner("l7").kernel(LESSON))
    trial.hub.send_signal(signal.SIGINT)
    assert trial.hub.wait(150) == 0  # half a minute on a quiet machine; a hub that hangs never ends
    first, second = trial.log().splitlines()[-2:]
    assert first.startswith("Stopping every server") and second.startswith("The class has ended.")
    assert "KeyboardInterrupt" not in (trial.folder / "hub/hub.log").read_text()
    assert not runs()
    with pytest.raises(OSError):
        requests.get(trial.address, timeout=5)
