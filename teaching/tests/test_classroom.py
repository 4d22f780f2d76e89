"""A class on one machine: eight learners at once, what none may do, and that nothing is lost when something breaks."""

import asyncio
import csv
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from teaching.classroom import __main__ as command
from teaching.classroom import accounts, collect, environment, install, load

ROOT = install.ROOT


# --------------------------------------------------------------------------------------------- what needs no machine


def names_in(tmp_path, text):
    path = tmp_path / "names.txt"
    path.write_text(text, encoding="utf-8")
    return accounts.read_names(path)


def test_a_list_of_names_is_read_and_a_wrong_line_is_named(tmp_path):
    assert names_in(tmp_path, "\ufeffMara\n\n  li2  # second row\n") == ["mara", "li2"]
    for wrong in ("ma ra", "mära", "2li", "../x", "a" * 21, "a-b"):
        with pytest.raises(accounts.NamesError, match="names.txt, line 2: .* letter"):
            names_in(tmp_path, f"li\n{wrong}\n")
    with pytest.raises(accounts.NamesError, match="line 3: 'li' is on line 1 already"):
        names_in(tmp_path, "li\nmara\nLI\n")


def test_no_two_names_share_an_account():
    names = ["a", "ab", "a2", "z" * 20]
    assert all(re.fullmatch(accounts.NAME, name) for name in names)
    made = {accounts.account("class", name) for name in names}
    assert len(made) == len(names) and max(map(len, made)) <= 32, "the longest name that useradd takes"


def test_what_learners_get_holds_no_solution_and_all_that_a_lesson_imports():
    files = install.course_files(ROOT)
    assert not [name for name in files if re.search(r"solutions|lessons_src/lessons/|tests/|teaching", name)]
    assert {"notebooks/02_statistics.ipynb", "lessons_src/lessonkit/check/__init__.py", "data/digits.npz"} <= set(files)
    assert {"lessons_src/fromscratch/__init__.py", "lessons_src/lab.py", "learner/start.py"} <= set(files)


def test_a_course_without_lessons_is_not_installed(tmp_path):
    with pytest.raises(install.ClassError, match="make notebooks"):
        install.course_files(tmp_path)


def test_a_class_that_nobody_could_enter_is_refused(tmp_path):
    with pytest.raises(install.ClassError, match="--learners names.txt .*--open"):
        command.settings(tmp_path, command.arguments([]))
    with pytest.raises(install.ClassError, match="--cert and --key"):
        command.settings(tmp_path, command.arguments(["--open", "--cert", "a.pem"]))


def test_a_folder_remembers_what_it_was_told_and_its_ports(tmp_path):
    (tmp_path / "hub").mkdir()
    (tmp_path / "names.txt").write_text("mara\n")
    first = command.settings(tmp_path, command.arguments(["--learners", f"{tmp_path}/names.txt", "--memory", "1"]))
    command.write_settings(tmp_path, first)
    assert (tmp_path / "hub/settings.json").stat().st_mode & 0o777 == 0o600
    again = command.settings(tmp_path, command.arguments(["--idle", "5"]))
    assert again == first | {"idle": 5.0} and again["learners"] == ["mara"] and again["memory"] == 1.0


def test_work_is_collected_without_following_anything(tmp_path):
    home, out = tmp_path / "home", tmp_path / "out"
    (home / "work").mkdir(parents=True)
    (home / "work/02_statistics.ipynb").write_text("mine")
    (home / "work/attempts.jsonl").write_text("{}\n")
    (home / "work/notes.txt").write_text("private")
    (tmp_path / "secret").write_text("secret")
    (home / "work/03_link.ipynb").symlink_to(tmp_path / "secret")
    os.mkfifo(home / "work/04_pipe.ipynb")
    (home / "work/05_folder.ipynb").mkdir()
    with open(home / "work/06_large.ipynb", "wb") as file:
        file.truncate(collect.LARGEST + 1)
    left_out = collect.collect({"mara": home, "new": tmp_path / "nobody"}, out)
    assert sorted(path.name for path in (out / "mara").iterdir()) == ["02_statistics.ipynb", "attempts.jsonl"]
    assert [item for _, item, _ in left_out] == [f"{n}.ipynb" for n in ("03_link", "04_pipe", "05_folder", "06_large")]
    copy, lesson = out / "mara/02_statistics.ipynb", home / "work/02_statistics.ipynb"
    assert copy.read_text() == "mine" and copy.stat().st_mtime_ns == lesson.stat().st_mtime_ns
    lesson.unlink()
    collect.collect({"mara": home}, out)
    assert [path.name for path in (out / "mara").iterdir()] == ["attempts.jsonl"]
    (home / "away").mkdir()
    shutil.move(home / "work", home / "away")
    (home / "work").symlink_to(home / "away/work")
    assert collect.collect({"mara": home}, out)[0][:2] == ("mara", "work"), "nor is a linked folder"


def test_the_homes_get_their_links_and_a_learners_own_files_stay(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "lessons_src")
    spec = importlib.util.spec_from_file_location("class_start", environment.HERE / "learner/start.py")
    start = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(start)
    (tmp_path / "course/notebooks").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/data").write_text("mine")
    start.prepare(tmp_path / "home", tmp_path / "course")
    assert (tmp_path / "home/data").read_text() == "mine"
    assert (tmp_path / "home/notebooks").readlink() == tmp_path / "course/notebooks"


def test_its_pins_say_what_needs_them_and_its_lock_names_no_address():
    for line in (environment.HERE / "requirements.txt").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[\w-]+==[\d.]+ +# .+", line), line
    asked = json.loads((environment.HERE / "package.json").read_text())["dependencies"]
    packages = json.loads((environment.HERE / "package-lock.json").read_text())["packages"]
    assert packages.pop("")["dependencies"] == asked
    assert all("integrity" in item and "resolved" not in item for item in packages.values())


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


@pytest.fixture(scope="module")
def trial():
    from teaching.classroom.trial import Trial

    with Trial() as running:
        yield running


def edited(notebook, text):
    """Return a notebook with a cell of text at its end."""
    cell = {"cell_type": "markdown", "id": "mine", "metadata": {}, "source": text}
    return notebook | {"cells": [*notebook["cells"], cell]}


@needs_a_machine
def test_eight_learners_at_once_reach_the_end_of_lesson_2(trial):
    learners = [trial.learner(f"l{index}") for index in range(8)]
    cells = load.cells_of(ROOT / "notebooks/02_statistics.ipynb")
    rows = asyncio.run(load.crowd(learners, cells, trial.uid))
    print(load.table(rows))
    assert not [row for row in rows if row.get("failed") or row["errors"]], load.table(rows)
    assert len({row["last"] for row in rows}) == 1, "the last cell says the same to all"
    homes = [Path(user.pw_dir) for user in accounts.members(trial.group).values()]
    assert len(homes) == 8 and all(home.stat().st_mode & 0o777 == 0o700 for home in homes)


@needs_a_machine
def test_none_sees_or_changes_what_is_anothers(trial):
    """Everything is tried from a learner's kernel, first on the learner's own things: there it must work."""

    async def attempts():
        other, me = trial.learner("l1"), trial.learner("l0")
        facts = "import json, os; print(json.dumps([os.environ[name] for name in ('HOME', 'JUPYTERHUB_SERVICE_URL')]"
        facts += " + [os.getppid()]))"
        theirs = json.loads(await (await other.kernel(LESSON)).say(facts))
        mine = await me.kernel(LESSON)
        tries = (Path(__file__).parent / "classroom_tries.py").read_text()
        own = json.loads(await mine.say(facts))
        results = {}
        for whose, (home, server, pid), name in (("own", own, "l0"), ("other", theirs, "l1")):
            call = f"\nprint(json.dumps(tries({home!r}, {server!r}, {pid}, {name!r}, {str(trial.folder)!r})))"
            results[whose] = json.loads(await mine.say(tries + call))
        return results

    results = asyncio.run(attempts())
    assert set(results["own"].values()) == {"done"}, results["own"]
    assert set(results["other"].values()) == {"refused"}, results["other"]


@needs_a_machine
def test_the_course_and_the_hub_are_closed_to_learners(trial):
    tries = """
import json, os, urllib.error, urllib.request
course, hub, edition = FOLDER + "/course", FOLDER + "/hub", os.path.realpath(FOLDER + "/course")
def call(address):
    request = urllib.request.Request(address, headers={"Authorization": "token " + os.environ["JUPYTERHUB_API_TOKEN"]})
    return urllib.request.urlopen(request, timeout=20).read()
tries = {f"write {path}": lambda path=path: open(path, "a") for path in (
    f"{course}/notebooks/02_statistics.ipynb", f"{course}/lessons_src/lessonkit/check/__init__.py",
    f"{edition}/environment/bin/python", f"{edition}/learner/start.py")}
tries |= {f"read {name}": lambda name=name: open(f"{hub}/{name}", "rb").read() for name in (
    "hub.sqlite", "cookie_secret", "passwords.db", "passwords.csv", "settings.json")}
tries |= {"list the hub": lambda: os.listdir(hub), "add to the course": lambda: open(f"{edition}/x", "w"),
          "turn the course": lambda: os.rename(course, course + "2"),
          "the list of users": lambda: call(os.environ["JUPYTERHUB_API_URL"] + "/users"),
          "the proxy's routes": lambda: call("http://127.0.0.1:PROXY/api/routes")}
out = {}
for name, act in tries.items():
    try:
        act(); out[name] = "done"
    except (PermissionError, urllib.error.HTTPError) as error:
        out[name] = "refused" if getattr(error, "code", 403) == 403 else str(error)
answers = [os.path.join(at, name) for at, _, names in os.walk(edition) for name in names
           if "solutions" in at or at.endswith("lessons_src/lessons")]
print(json.dumps([out, answers, os.access(f"{course}/notebooks/02_statistics.ipynb", os.R_OK)]))
"""
    settings = json.loads((trial.folder / "hub/settings.json").read_text())
    tries = tries.replace("FOLDER", repr(str(trial.folder))).replace("PROXY", str(settings["proxy_port"]))

    async def attempts():
        return json.loads(await (await trial.learner("l0").kernel(LESSON)).say(tries))

    outcome, answers, readable = asyncio.run(attempts())
    assert len(outcome) == 14 and set(outcome.values()) == {"refused"}, outcome
    assert answers == [] and readable


class Browser:
    """Logs in with a password and follows redirects, with cookies, as a browser does."""

    def __init__(self, address):
        self.address, self.cookies = address, CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def open(self, path, **fields):
        """Return (status, text)."""
        address = self.address + path
        if fields:
            fields["_xsrf"] = next(cookie.value for cookie in self.cookies if cookie.name == "_xsrf")
        try:
            answer = self.opener.open(address, urllib.parse.urlencode(fields).encode() if fields else None, timeout=60)
        except urllib.error.HTTPError as error:
            answer = error
        return answer.status, answer.read().decode()

    def log_in(self, name, password):
        self.open("/hub/login")
        return self.open("/hub/login?next=/hub/home", username=name, password=password)[0] == 200


def slips(trial):
    """Return {name: password} of the list that the instructor hands out."""
    with open(trial.folder / "hub/passwords.csv", newline="") as file:
        return dict(csv.reader(file))


@needs_a_machine
def test_only_who_has_the_password_logs_in_and_only_the_instructor_sees_the_class(trial):
    handed_out = slips(trial)
    assert set(handed_out) == {"teacher", "mara"} and len(set(handed_out.values())) == 2
    mara, teacher = Browser(trial.address), Browser(trial.address)
    for name, password in (("mara", "guessed-password"), ("teacher", "a-new-password"), ("stranger", "long-enough-1")):
        assert not Browser(trial.address).log_in(name, password), f"{name} came in"
    assert mara.log_in("mara", handed_out["mara"]) and teacher.log_in("teacher", handed_out["teacher"])
    assert mara.open("/services/progress/")[0] == 403 and mara.open("/hub/admin")[0] == 403
    status, page = teacher.open("/services/progress/")
    assert status == 200 and ("l3" in page if accounts.members(trial.group) else "Nobody" in page), page[:2000]


@needs_a_machine
def test_a_killed_server_comes_back_with_its_work(trial):
    learner = trial.learner("l2")

    async def scenario():
        kernel = await learner.kernel(LESSON)
        await learner.save(LESSON, edited(await learner.read(LESSON), "before the crash"))
        await kernel.run(["from lessonkit import check", 'check.recall("2.1", "c")'])
        server = int(await kernel.say("import os; print(os.getppid())"))
        os.kill(server, signal.SIGKILL)
        while await learner.running():  # until the hub has noticed
            await asyncio.sleep(0.5)
        await learner.start()
        return (await learner.read(LESSON))["cells"][-1]["source"], await (await learner.kernel(LESSON)).say("print(2)")

    assert asyncio.run(scenario()) == ("before the crash", "2")
    work = Path(accounts.members(trial.group)["l2"].pw_dir) / "work"
    assert '"right"' in (work / "attempts.jsonl").read_text(), "the log of attempts is the learner's"


@needs_a_machine
def test_a_kernel_that_asks_for_too_much_is_told_the_limit_and_goes_on(trial):
    async def scenario():
        kernel = await trial.learner("l3").kernel(LESSON)
        await kernel.say("x = 1")
        threads = "import threading, time\nfor _ in range(600): threading.Thread(target=time.sleep, args=(1,)).start()"
        cells = ("y = bytearray(3 << 30)", "import torch; z = torch.zeros(1 << 30)", threads, "print(x + 1)")
        return [await kernel.say(cell) for cell in cells]

    plain, tensor, threads, after = asyncio.run(scenario())
    assert "a kernel has 2.5 GB" in plain and "MemoryError" in plain
    assert "a kernel has 2.5 GB" in tensor and "DefaultCPUAllocator" in tensor
    assert "can't start new thread" in threads and after == "2"


@needs_a_machine
def test_a_full_disk_loses_nothing(trial):
    """The home of this learner is a disk of its own, at first too small for the lessons, then with room for some."""
    home = Path(accounts.ensure(trial.group, "full", trial.homes).pw_dir)
    about = home.stat()
    options = f"size=256k,uid={about.st_uid},gid={about.st_gid},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", home], check=True)
    learner, path = trial.learner("full"), home / LESSON
    lessons = len(list((ROOT / "notebooks").glob("*.ipynb")))

    async def restart():
        await learner.ask("/hub/api/users/full/server", "DELETE")
        while await learner.running():
            await asyncio.sleep(0.3)
        await learner.start()

    async def scenario():
        await learner.start()  # on a disk that cannot take the lessons
        for copy in (home / "work").glob("*"):
            json.loads(copy.read_text())  # what is there is whole
        assert len(list((home / "work").glob("*"))) < lessons
        subprocess.run(["mount", "-o", "remount,size=12m", home], check=True)
        await restart()
        assert len(list((home / "work").glob("*.ipynb"))) == lessons
        first = edited(await learner.read(LESSON), "first")
        await learner.save(LESSON, first)
        on_disk = path.read_bytes()
        fill = "with open(os.path.expanduser('~/filler'), 'ab') as f:\n    while True: f.write(bytes(1024)); f.flush()"
        said = await (await learner.kernel(LESSON)).say(f"import os\n{fill}")
        assert "No space left" in said
        for text in ("second", "third"):  # saved again and again, as JupyterLab does every 15 seconds
            with pytest.raises(load.Refused, match="Your disk is full") as refused:
                await learner.save(LESSON, edited(first, text))
            assert refused.value.status == 507 and path.read_bytes() == on_disk
        await restart()  # on a full disk, to make room
        assert path.read_bytes() == on_disk
        await learner.ask("/user/full/api/contents/filler", "DELETE")
        await learner.save(LESSON, edited(first, "fourth"))
        assert (await learner.read(LESSON))["cells"][-1]["source"] == "fourth"

    asyncio.run(scenario())


@needs_a_machine
def test_an_upgrade_touches_nobodys_work(trial, tmp_path):
    newer = tmp_path / "newer"
    for name, source in install.course_files(ROOT).items():
        (newer / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, newer / name)
    lesson = json.loads((newer / "notebooks/02_statistics.ipynb").read_text())
    lesson["metadata"]["lesson"]["cells"] = "newer" + lesson["metadata"]["lesson"]["cells"]
    (newer / "notebooks/02_statistics.ipynb").write_text(json.dumps(edited(lesson, "of the newer edition")))
    learner = trial.learner("l4")
    edition = (trial.folder / "course").resolve()

    async def scenario():
        kernel = await learner.kernel(LESSON)
        home = Path(accounts.members(trial.group)["l4"].pw_dir)
        await learner.save(LESSON, edited(await learner.read(LESSON), "my own"))
        before = {path: path.read_bytes() for path in (home / "work").glob("*.ipynb")}
        code = f"install.install({str(trial.folder)!r}, pathlib.Path({str(newer)!r}))"
        code = f"import pathlib; from teaching.classroom import install; {code}"
        subprocess.run([ROOT / ".venv/bin/python", "-c", code], cwd=ROOT, check=True)
        assert (trial.folder / "course").resolve() != edition
        where = "import lessonkit.plot; print(lessonkit.__file__)"
        assert str(edition) in await kernel.say(where), "what runs goes on with its own edition"
        await learner.ask("/hub/api/users/l4/server", "DELETE")
        while await learner.running():
            await asyncio.sleep(0.3)
        await learner.start()
        assert {path: path.read_bytes() for path in (home / "work").glob("*.ipynb")} == before
        kernel = await learner.kernel(LESSON)
        assert str((trial.folder / "course").resolve()) in await kernel.say(where)
        page = await learner.read("NEWER_LESSONS.md")
        typed = re.search(r"`work/02_statistics.ipynb`: `(.+)`", page)[1]
        said = await kernel.say(f"import subprocess; print(subprocess.check_output({typed.split()!r}, text=True))")
        (beside,) = set((home / "work").glob("*.ipynb")) - set(before)
        assert "of the newer edition" in beside.read_text() and beside.name in said

    asyncio.run(scenario())


@needs_a_machine
def test_a_killed_hub_loses_nothing_and_then_stops_what_is_idle(trial):
    learner = trial.learner("l5")

    async def begin():
        kernel = await learner.kernel(LESSON)
        await kernel.say("kept = 41")
        await learner.save(LESSON, edited(await learner.read(LESSON), "while the hub was there"))
        return kernel.name

    async def go_on(kernel):
        assert await learner.running()
        return await (await learner.connect(kernel)).say("print(kept + 1)")

    async def idle():
        end = time.monotonic() + 90
        while await learner.running() and time.monotonic() < end:
            await asyncio.sleep(0.5)
        return not await learner.running()

    kernel = asyncio.run(begin())
    trial.kill()
    assert list((trial.folder / "run/l5").glob("kernel-*.json")), "the learner's kernel goes on"
    trial.start()
    assert asyncio.run(go_on(kernel)) == "42"
    teacher = Browser(trial.address)
    assert teacher.log_in("teacher", slips(trial)["teacher"])
    assert teacher.open("/services/progress/")[0] == 200, "the page comes back too"
    trial.kill()
    trial.start("--idle", "0.1")
    assert asyncio.run(idle()), "a server that nobody used for six seconds is still there"
    home = Path(accounts.members(trial.group)["l5"].pw_dir)
    assert "while the hub was there" in (home / LESSON).read_text()
