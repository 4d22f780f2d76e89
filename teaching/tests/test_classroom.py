"""A class on one machine: what is refused, and one day of a class, told from the first login to its removal."""

import csv
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
from pathlib import Path

import psutil
import pytest
import requests

from teaching.classroom import __main__ as command
from teaching.classroom import accounts, client, collect, environment, install, progress_reader
from teaching.classroom.trial import Trial, crowd
from teaching.tests.browser import chromium, needs_chromium

ROOT = install.ROOT


def named(*lines):
    """Return an act that reads these lines as names, in the letters of an old editor."""

    def act(folder):
        (folder / "names.txt").write_text("\n".join(lines), encoding="latin-1")
        accounts.read_names(folder / "names.txt")

    return act


def asked(*words):
    return lambda folder: command.settings(command.parse(["--folder", str(folder), *words]))


def in_use(folder):
    (folder / "run").mkdir()
    with command.lock(folder):
        pass


def home(where, name="g-mara", uid=0):
    """Return an act that would delete the home of an account, if it were where it says."""

    def act(folder):
        (folder / "g-mara/g-mara").mkdir(parents=True)
        (folder / "g-link").symlink_to(folder / "g-mara")
        owner = os.getuid() + uid
        accounts.delete_home(pwd.struct_passwd((name, "x", owner, os.getgid(), "", str(folder / where), "")), folder)

    return act


REFUSED = [  # what is tried, in an empty folder; what is said
    *(
        (named("li", name), r"names.txt, line 2: .* letter")
        for name in ("ma ra", "mära", "2li", "../x", "a" * 21, "a-b")
    ),
    (named("mara", "li", "", "Mara"), "line 4: 'mara' is yours already"),
    (named("teacher"), "line 1"),
    (in_use, "not a class's.* --folder"),
    (install.course_files, "make notebooks"),
    (asked(), "--learners names.txt .*--open"),
    (asked("--open", "--cert", "a.pem"), "--cert and --key"),
    (asked("--open", "--domain", "https://a.org"), "without https://"),
    *((home(where), "not the class's") for where in ("/", ".", "g-mara/g-mara", "g-mara/..")),
    (home("g-link", "g-link"), "not the class's"),
    (home("g-mara", uid=1), "not the class's"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_be_is_refused_with_the_way_out(number, tmp_path, monkeypatch):
    monkeypatch.setattr(accounts.subprocess, "run", lambda *words, **_: pytest.fail(f"{words}"))
    act, message = REFUSED[number]
    with pytest.raises((accounts.ClassError, PermissionError), match=message):
        act(tmp_path)


def test_a_class_gets_every_check_and_no_solution():
    files = install.course_files(ROOT)
    rooms = {file for file in files if file.startswith("lessons_src/lessons/")}
    checks = {path.relative_to(ROOT).as_posix() for path in (ROOT / "lessons_src/lessons").glob("*/checks.py")}
    assert checks and rooms == checks | {"lessons_src/lessons/__init__.py"}
    for file, path in files.items():
        assert "solutions" not in Path(file).parts and b"BEGIN SOLUTION" not in path.read_bytes(), file


def test_work_is_collected_without_following_anything(tmp_path):
    home, out, secret = tmp_path / "home", tmp_path / "out", tmp_path / "secret"
    work = home / "work"
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
    for _ in range(2):
        left_out = collect.collect({"mara": home, "new": tmp_path / "nobody"}, out)
        assert [name[:2] for _, name, _ in left_out] == ["03", "04", "05", "06"]
        assert sorted(os.listdir(out / "mara")) == copied
        assert (out / "mara" / copied[0]).stat().st_mtime_ns == (work / copied[0]).stat().st_mtime_ns
    few = [name for _, name, _ in collect.collect({"mara": home}, out, room=6, only=True)]  # "mine" has four bytes
    assert few[3:] == [*copied[1:]] or set(copied[1:]) <= set(few), "what is left is for the first"
    assert os.listdir(out / "mara") == copied[:1]
    work.rename(home / "away")
    work.symlink_to(home / "away")
    assert collect.collect({"mara": home}, out)[0][:2] == ("mara", "work"), "nor is a linked folder"


def _missing():
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a class needs Linux and root: its learners get accounts"
    if not all(shutil.which(name) for name in ("useradd", "userdel", "node")):
        return "a class needs useradd and Node.js (on Debian: apt install passwd nodejs npm)"
    if not (environment.FOLDER / "ready").exists():
        return "there is no .venv-class: make .venv-class/ready"
    return None


needs_a_machine = pytest.mark.skipif(bool(_missing()), reason=_missing() or "")
LESSON = "work/02_statistics.ipynb"


def in_the_hub_s_environment(program, *words):
    """Return what a program prints that imports what the hub does."""
    run = [environment.FOLDER / "bin/python", "-c", program, *words]
    return subprocess.run(run, cwd=ROOT, check=True, capture_output=True, text=True).stdout


GUESSES = """
import asyncio, pathlib, sys, types
from teaching.classroom import logins, passwords

folder = pathlib.Path(sys.argv[1])
passwords.keep(folder, "mara", "the right one")
logins.MOST = 3
logins.ClassAuthenticator.allow_all = True
hub = logins.ClassAuthenticator(folder=str(folder))

def log_in(address, password):
    headers = {"X-Forwarded-For": f"10.0.0.9, {address}"}
    handler = types.SimpleNamespace(request=types.SimpleNamespace(headers=headers, remote_ip="127.0.0.1"))
    try:
        print(asyncio.run(hub.authenticate(handler, {"username": "mara", "password": password})), end=", ")
    except Exception as error:
        print(error.log_message.partition("mara")[2].split(" s ")[0][-7:], end=", ")

log_in("10.0.0.1", "the right one")
for number in range(2, 6):
    log_in(f"10.0.0.{number}", "guessed")
log_in("10.0.0.7", "the right one")
log_in("10.0.0.1", "the right one")
"""
TAKEN = """
import asyncio, functools, os, subprocess, sys, types
from teaching.classroom import ports, servers

async def runs():
    return None

async def ended():
    return 1

LISTEN = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
for user in (os.getuid(), 65534):
    run = [sys.executable, "-c", LISTEN]
    other = subprocess.Popen(run, user=user, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
    port = int(other.stdout.readline())
    server = types.SimpleNamespace(
        account=types.SimpleNamespace(pw_uid=os.getuid()),
        user=types.SimpleNamespace(name="mara"),
        log=types.SimpleNamespace(error=lambda text, *parts: print(text % parts)),
        poll=runs,
        answers=functools.partial(servers.ClassSpawner.answers, None),
    )
    print(ports.listeners(port) == {user}, asyncio.run(servers.ClassSpawner.is_the_learner_s(server, port)))
    other.communicate("")
server.poll = ended
print(asyncio.run(servers.ClassSpawner.is_the_learner_s(server, port)))
"""


@needs_a_machine
def test_guesses_from_many_addresses_wait_and_keep_nobody_out_where_the_name_has_been(tmp_path):
    said = in_the_hub_s_environment(GUESSES, tmp_path)
    assert re.fullmatch(r"mara, None, None, None, Wait \d\d, Wait \d\d, mara, ", said), said


@needs_a_machine
def test_a_server_counts_as_the_learner_s_only_if_nobody_else_listens_at_its_port():
    assert in_the_hub_s_environment(TAKEN).splitlines() == [
        "True True",
        "mara: somebody else listens at its port, the user 65534",
        "True False",
        "True",
    ]


@pytest.fixture(scope="module")
def trial():
    with Trial() as running:
        running.start()
        yield running


def edited(notebook, text):
    """Return a notebook with a cell of text at its end."""
    cell = {"cell_type": "markdown", "id": "mine", "metadata": {}, "source": text}
    return notebook | {"cells": [*notebook["cells"], cell]}


def write(learner, text):
    """Save a learner's lesson with a cell of text at its end."""
    learner.save(LESSON, edited(learner.read(LESSON), text))


def run(trial, *arguments, **options):
    """Run make class's program on the folder of a class; return what it prints and its exit status."""
    done = subprocess.run(trial.command(*arguments), cwd=ROOT, capture_output=True, text=True, **options)
    return done.stdout + done.stderr, done.returncode


def until(true):
    """Wait until something is true, a minute and a half at most."""
    end = time.monotonic() + 90
    while not true():
        assert time.monotonic() < end
        time.sleep(0.3)


def stop(learner):
    """Stop a learner's server, and wait until the hub says that it is gone."""
    learner.ask(f"/hub/api/users/{learner.name}/server", "DELETE")
    until(lambda: not learner.server())


def processes(trial, name):
    """Return how many processes of a learner live. Those that have ended stay listed until their parent asks."""
    uid = str(trial.account(name).pw_uid)
    states = subprocess.run(["ps", "-o", "stat=", "-u", uid], capture_output=True, text=True).stdout.split()
    return sum(not state.startswith("Z") for state in states)


class Browser:
    """Opens the login page, logs in and follows redirects, as a browser does that comes from an address of 127/8."""

    def __init__(self, trial, source="127.0.0.1", certificate=None):
        self.address, self.session = trial.address, requests.Session()
        self.session.trust_env, self.session.verify = False, certificate
        for adapter in self.session.adapters.values():
            adapter.poolmanager.connection_pool_kw["source_address"] = (source, 0)
        self.open("/hub/login")

    def open(self, path, **fields):
        """Return (status, text)."""
        if fields:
            fields["_xsrf"] = next(cookie.value for cookie in self.session.cookies if cookie.name == "_xsrf")
        answer = self.session.request("POST" if fields else "GET", self.address + path, data=fields, timeout=60)
        return answer.status_code, answer.text

    def log_in(self, name, password):
        return self.open("/hub/login?next=/hub/home", username=name, password=password)


def slips(trial):
    """Return {name: password} of the list that the instructor hands out."""
    with open(trial.folder / "hub/passwords.csv", newline="") as file:
        return dict(csv.reader(file))


def logged_in(trial, name="teacher", **options):
    """Return the Browser of somebody who has the password of the list."""
    browser = Browser(trial, **options)
    assert browser.log_in(name, slips(trial)[name])[0] == 200
    return browser


@needs_a_machine
def test_learners_who_come_at_once_reach_the_end_of_lesson_2(trial):
    said = (trial.folder / "said.txt").read_text().splitlines()
    assert said[0] == f"Setting up the class in {trial.folder} (once)" and len(said) == 6, said
    assert said[-1] == accounts.NO_DOMAIN
    measurements, errors = crowd(trial, ["mara", "li", "l3"], ROOT / f"notebooks/{Path(LESSON).name}")
    assert not errors and len(measurements) == 3 and min(map(min, measurements)) > 0
    assert all(os.stat(user.pw_dir).st_mode & 0o777 == 0o700 for user in accounts.members(trial.group).values())


@needs_a_machine
def test_only_the_password_lets_in_and_a_new_one_interrupts_nobody(trial):
    old = slips(trial)
    assert (
        set(old) == {"teacher", "mara", "li"} and (trial.folder / "hub/passwords.csv").stat().st_mode & 0o777 == 0o600
    )
    assert Browser(trial).log_in("stranger", "long-enough-1")[0] == 403
    assert Browser(trial).log_in("stranger", "x" * (2 << 20))[0] in (400, 503), "longer than the hub reads"
    guesser = Browser(trial, "127.0.1.1")
    assert guesser.log_in("mara", "guessed-password")[0] == 403
    assert "Wait 1 s" in guesser.log_in("mara", old["mara"])[1]
    mara = logged_in(trial, "mara")  # from a different address at once
    page = "/hub/auth/change-password"
    assert "not your present" in mara.open(page, old="guessed-password", password="chosen by a page")[1]
    time.sleep(1)
    assert guesser.log_in("mara", old["mara"])[0] == 200
    assert "at least 8 letters" in mara.open(page, old=old["mara"], password="short")[1]
    assert mara.open(page)[0] == 200
    assert "is changed" in mara.open(page, old=old["mara"], password="chosen by mara")[1]
    assert Browser(trial, "127.0.1.2").log_in("mara", old["mara"])[0] == 403
    assert Browser(trial).log_in("mara", "chosen by mara")[0] == 200
    said, code = run(trial, "--password", "Mara")
    new = slips(trial)
    assert code == 0 and new["mara"] in said and new == old | {"mara": new["mara"]} != old
    assert Browser(trial, "127.0.1.3").log_in("mara", "chosen by mara")[0] == 403
    assert logged_in(trial, "mara") and mara.open("/hub/home")[0] == 200
    assert "There is no stranger in this class" in run(trial, "--password", "stranger")[0]
    for arguments in ((), ("--remove",)):
        assert "This class is running already" in run(trial, *arguments, input="remove\n")[0]


@needs_a_machine
def test_the_page_of_the_class_is_the_instructor_s_and_its_maker_can_change_nothing(trial, tmp_path):
    mara, teacher = logged_in(trial, "mara"), logged_in(trial)
    assert mara.open("/services/progress/")[0] == 403
    assert {who.open("/hub/admin")[0] for who in (mara, teacher)} == {403}, "of anybody's, without a domain"
    status, page = teacher.open("/services/progress/")
    assert status == 200 and "l3" in page and accounts.NO_DOMAIN in page and "not yet here" not in page, page[:2000]
    settings = trial.folder / "hub/settings.json"
    kept = json.loads(settings.read_text())
    settings.write_text(json.dumps(kept | {"learners": ["mara", "noor"]}))
    status, page = teacher.open("/services/progress/?lesson=2")
    assert set(re.findall(r'<th scope="col"[^>]*>(\d+)\.\d+', page)) == {"2"} and 'href="?lesson=03">3</a>' in page
    columns = 1 + page.count('<th scope="col" class')
    assert re.search(r'>noor</th><td colspan="(\d+)"[^>]*>not yet here', page)[1] == str(columns)
    assert teacher.open("/services/progress/?lesson=99")[0] == 404
    status, page = mara.open("/hub/token")
    assert status == 200 and "nobody makes a token" in page and 'id="request-token-form"' not in page
    assert "/hub/auth/change-password" in page and "/services/progress" not in page
    copies, reader = trial.folder / "progress", accounts.as_user(accounts.ensure_reader(trial.group))
    for act, code in {"cat {}/mara/02_statistics.ipynb": 0, "touch {}/x": 1, "touch {}/mara/x": 1}.items():
        assert subprocess.run(["sh", "-c", act.format(copies)], **reader, capture_output=True).returncode == code, act
    assert run(trial, "--collect", tmp_path / "out") == (f"{tmp_path / 'out'}: the work of 3 learners.\n", 0)
    assert (tmp_path / "out/li/02_statistics.ipynb").exists()


def test_homes_that_take_long_to_read_wait_for_the_others_and_are_said(tmp_path, monkeypatch):
    folders = [tmp_path / name for name in ("full", "mara", "li")]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "02_statistics.ipynb").write_text("[" + "{}," * 999 + "{}]")
    clock = iter([0.0, 1.0, 9.0])
    monkeypatch.setattr(progress_reader.time, "process_time", lambda: next(clock))
    page = progress_reader.page_of("02", ["noor"], folders)
    rows = dict(re.findall(r'<th class="name" scope="row">(\w+)</th>(.*)', page))
    assert "not read: there was no time" in rows["full"] and "not yet here" in rows["noor"]
    assert not [name for name in ("mara", "li") if "not read" in rows[name]]


ON_A_LEARNER = [  # home, server (its address behind the proxy), pid, run (the folder of its sockets) are the learner's
    "os.listdir(home)",
    "open(f'{home}/work/02_statistics.ipynb', 'a').close()",
    "open(f'/proc/{pid}/environ', 'rb').read()",
    "os.kill(pid, signal.SIGCONT)",
    "os.listdir(run) and open(glob.glob(f'{run}/kernel-*.json')[0])",
    "call(f'{server}api/contents/work')",
]
ON_THE_CLASS = [
    *(f"open(f'{{folder}}/course/{path}', 'a')" for path in ("lessons_src/lab.py", "environment/bin/python", "new")),
    *(f"os.listdir(f'{{folder}}/{name}')" for name in ("hub", "progress")),
    "os.rename(f'{folder}/course', f'{folder}/course2')",
    "call(os.environ['JUPYTERHUB_API_URL'] + '/users')",
    "call(f'http://127.0.0.1:{proxy}/api/routes')",
]


@needs_a_machine
def test_none_sees_or_changes_what_is_anothers_or_the_class_s(trial):
    """Everything is tried from a learner's kernel, first on the learner's own things: there it must work."""
    proxy = json.loads((trial.folder / "hub/settings.json").read_text())["proxy_port"]
    mine, others = (trial.learner(name).kernel(LESSON) for name in ("mara", "li"))
    mine.say((Path(__file__).parent / "classroom_tries.py").read_text())

    def outcomes(acts, names):
        return json.loads(mine.say(f"tried({acts!r}, **{names!r})"))

    def of(kernel, name):
        facts = "dict(home=os.environ['HOME'], server=os.environ['JUPYTERHUB_SERVICE_URL'], pid=os.getppid())"
        about = json.loads(kernel.say(f"import json, os\nprint(json.dumps({facts}))"))
        return outcomes(ON_A_LEARNER, about | {"run": f"{trial.folder}/run/{name}"})

    assert set((own := of(mine, "mara")).values()) == {"done"}, own
    assert set((other := of(others, "li")).values()) == {"refused"}, other
    the_class = outcomes(ON_THE_CLASS, {"folder": str(trial.folder), "proxy": proxy})
    assert set(the_class.values()) == {"refused"}, the_class


@needs_a_machine
def test_who_is_not_logged_in_fills_neither_memory_nor_the_hub_s_list_of_files(trial):
    port = json.loads((trial.folder / "hub/settings.json").read_text())["page_port"]
    with socket.create_connection(("127.0.0.1", port), timeout=20) as page:
        page.sendall(b"POST /services/progress/ HTTP/1.1\r\nHost: class\r\nContent-Length: 1000000\r\n\r\n")
        assert b" 400 " in page.recv(100), "its maker, root, would hold a hundred times as much for each who asks"
    (hub,) = psutil.Process(trial.program.pid).children()
    soft, hard = hub.rlimit(psutil.RLIMIT_NOFILE)
    assert soft == hard, "with the usual 1,024 a learner's connections stop it"


@needs_a_machine
def test_a_kernel_is_told_its_limits(trial):
    kernel = trial.learner("l3").kernel(LESSON)
    threads = "import threading, time\nthreading.stack_size(1 << 17)  # or 300 of them would be out of memory\n"
    threads += "for _ in range(600): threading.Thread(target=time.sleep, args=(3,)).start()"
    asks = {
        "x = bytearray(3 << 30)": "a kernel has 2.5 GB.*MemoryError",
        "import torch; x = torch.zeros(1 << 30)": "a kernel has 2.5 GB.*DefaultCPUAllocator",
        threads: "can't start new thread",
    }
    for code, told in asks.items():
        assert re.search(told, kernel.say(code), re.DOTALL)
    shared = "import os\nroom = os.statvfs('/dev/shm')\nprint(room.f_blocks * room.f_frsize)"
    assert int(kernel.say(shared)) == 64 << 20
    segment = "import ctypes\nget = ctypes.CDLL(None).shmget  # System V's shared memory, which outlives processes\n"
    segment += "print(*(get(0, ctypes.c_size_t(size << 20), 0o1600) >= 0 for size in (1, 100)))"
    assert kernel.say(segment).split() == ["True", "False"]
    terminals = "import os\nopen_ones = []\ntry:\n    for _ in range(200): open_ones += os.openpty()\n"
    terminals += "except OSError: print(len(open_ones) // 2)\nfor one in open_ones: os.close(one)"
    assert int(kernel.say(terminals)) == 64, "a learner would take the machine's"
    temporary = kernel.say("import tempfile; print(tempfile.gettempdir())").strip()
    assert temporary == f"{trial.folder}/run/l3/tmp", "what torch.compile has made is found in it by its name"
    privileges = kernel.say("print(open('/proc/self/status').read())")
    assert "NoNewPrivs:\t1" in privileges, "cron's and su's programs would run outside the limits"
    listens = "import os\nprint(sum(line.split()[3] == '0A' and int(line.split()[7]) == os.getuid() for line in "
    assert kernel.say(listens + "open('/proc/net/tcp').readlines()[1:]))").strip() == "1", "that of the server"


HOARD = """
import os, socket, sys
for _ in range(5):
    if not os.fork():
        os.setsid()
        held = []
        try:
            while len(held) < 4000:
                held.append(socket.socket())
                held[-1].bind(("0.0.0.0", 0))
        finally:
            while True:
                os.read(0, 1) or __import__("time").sleep(60)
"""


@needs_a_machine
def test_who_takes_the_ports_of_the_machine_is_ended_and_nobody_else(trial):
    other = trial.learner("l2").kernel(LESSON)
    kernel = trial.learner("l3").kernel(LESSON)
    began = kernel.say(f"import subprocess, sys\nhoard = subprocess.Popen([sys.executable, '-c', {HOARD!r}])\nprint(1)")
    assert began.strip() == "1" and processes(trial, "l3")
    until(lambda: not processes(trial, "l3"))
    assert re.search(
        r"l3: all programs were ended, for they held \d{4,} sockets", (trial.folder / "hub/hub.log").read_text()
    )
    assert other.say("print(2)").strip() == "2"
    until(lambda: not trial.learner("l3").server())
    trial.learner("l3").start()


@needs_a_machine
def test_a_full_disk_loses_nothing(trial):
    """The home of this learner is a disk of its own, at first too small for the lessons."""
    user, learner = accounts.ensure(trial.group, "full", trial.homes), trial.learner("full")
    path, lessons = Path(user.pw_dir, LESSON), len(list((ROOT / "notebooks").glob("*.ipynb")))
    options = f"size=256k,uid={user.pw_uid},gid={user.pw_gid},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", user.pw_dir], check=True)
    try:
        with pytest.raises(client.Refused, match="No space left.* What you saved is there"):
            learner.start()
        learner.start()  # as the message says, to make room
        subprocess.run(["mount", "-o", "remount,size=12m", user.pw_dir], check=True)
        stop(learner)
        learner.start()
        assert len(list(path.parent.glob("*.ipynb"))) == lessons
        write(learner, "first")
        on_disk = path.read_bytes()
        fill = "with open(os.path.expanduser('~/filler'), 'ab') as f:\n    while True: f.write(bytes(1024)); f.flush()"
        assert "No space left" in learner.kernel(LESSON).say(f"import os\n{fill}")
        for text in ("second", "third"):  # saved again and again, as JupyterLab does every 15 seconds
            with pytest.raises(client.Refused, match="507 .*Your disk is full"):
                write(learner, text)
            assert path.read_bytes() == on_disk
        learner.ask("/user/full/api/contents/filler", "DELETE")
        write(learner, "fourth")
        assert "fourth" in path.read_text()
    finally:
        accounts.end_processes([user])
        subprocess.run(["umount", user.pw_dir], check=True)


@needs_a_machine
def test_an_upgrade_touches_nobodys_work(trial, tmp_path):
    learner, edition = trial.learner("mara"), (trial.folder / "course").resolve()
    install.copy(install.course_files(ROOT), tmp_path)
    newer = tmp_path / "notebooks/02_statistics.ipynb"
    lesson = json.loads(newer.read_text())
    lesson["metadata"]["lesson"]["cells"] = "newer" + lesson["metadata"]["lesson"]["cells"]
    newer.write_text(json.dumps(edited(lesson, "of the newer edition")))
    kernel, work = learner.kernel(LESSON), Path(trial.account("mara").pw_dir, "work")
    write(learner, "my own")
    before = {path: path.read_bytes() for path in work.glob("*.ipynb")}
    code = "import sys; from pathlib import Path; from teaching.classroom import install; "
    code += "install.install(Path(sys.argv[1]), Path(sys.argv[2]))"
    subprocess.run([ROOT / ".venv/bin/python", "-c", code, trial.folder, tmp_path], cwd=ROOT, check=True)
    where = "import lessonkit.plot; print(lessonkit.__file__)"
    assert str(edition) in kernel.say(where), "what runs goes on with its own edition"
    stop(learner)
    assert learner.kernel(LESSON) and {path: path.read_bytes() for path in work.glob("*.ipynb")} == before
    kernel, now = learner.kernel(LESSON), (trial.folder / "course").resolve()
    assert now != edition and str(now) in kernel.say(where)
    typed = re.search(r"`work/02_statistics.ipynb`: `(.+)`", learner.read("NEWER_LESSONS.md"))[1]
    printed = kernel.say(f"import subprocess; print(subprocess.check_output({typed.split()!r}, text=True))")
    (beside,) = set(work.glob("*.ipynb")) - set(before)
    assert "of the newer edition" in beside.read_text() and beside.name in printed


def end(trial, sign):
    """End a class; return what it said last, in two lines."""
    trial.program.send_signal(sign)
    assert trial.program.wait(150) == 0  # seconds on a quiet machine
    return (trial.folder / "said.txt").read_text().splitlines()[-2:]


@needs_a_machine
def test_ctrl_c_ends_a_class_that_goes_on_with_its_work_with_https_and_fewer_names(trial, tmp_path):
    program = "subprocess.Popen(['sleep', '600'], start_new_session=True)"
    assert trial.learner("mara").kernel(LESSON).say(f"import subprocess; print({program}.poll())") == "None"
    said = end(trial, signal.SIGINT)
    assert said[0].startswith("Stopping every server") and said[1].startswith("The class has ended."), said
    assert processes(trial, "mara") == 0
    certificate, key, names = (tmp_path / name for name in ("hub.crt", "hub.key", "names.txt"))
    sign = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=class"]
    sign += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate, "-keyout", key]
    subprocess.run(sign, check=True, capture_output=True)
    names.write_text("mara\n")
    trial.start("--cert", certificate, "--key", key, "--learners", names)
    assert Browser(trial, certificate=certificate).log_in("li", slips(trial)["li"])[0] == 403, "no longer on the list"
    mara = logged_in(trial, "mara", certificate=certificate)
    mara.open("/hub/spawn")
    until(lambda: mara.open("/user/mara/lab") and "my own" in mara.open(f"/user/mara/api/contents/{LESSON}")[1])
    assert {cookie.secure for cookie in mara.session.cookies if re.search("token|hub", cookie.name)} == {True}
    assert end(trial, signal.SIGTERM) == said
    trial.start("--open", "--idle", "0.5")
    assert trial.address.startswith("https"), "the folder remembers what it was told"
    for password, status in (("short", 403), ("long enough", 200), ("a different one", 403)):
        assert Browser(trial, certificate=certificate).log_in("stranger", password)[0] == status
    logged_in(trial, "mara", certificate=certificate).open("/hub/spawn")
    until(lambda: processes(trial, "mara"))
    until(lambda: not processes(trial, "mara"))  # a server is stopped that nobody used for half a minute


STEAL = """async (hub) => {
    const ask = (path, more) =>
        fetch(hub + path, {credentials: "include", ...more}).then((answer) => answer.text(), () => "closed");
    const xsrf = (await ask("/hub/home")).match(/xsrf_token: "(.+?)"/)?.[1];
    const token = await ask(`/hub/api/users/teacher/tokens?_xsrf=${xsrf}`, {method: "POST", body: "{}"});
    return [Boolean(xsrf), token];
}"""


@needs_a_machine
@needs_chromium
def test_with_a_domain_a_page_of_a_learner_s_gets_nothing_from_the_teacher_who_opens_it(trial):
    """The page is tried at the hub's own address as well, where it would be without a domain: no token there either."""
    end(trial, signal.SIGTERM)
    trial.start("--domain", "class.localhost", "--idle", "60")
    hub = trial.address
    with chromium() as browser:
        page = browser.new_page(ignore_https_errors=True)
        page.goto(f"{hub}/hub/login")
        page.fill("#username_input", "teacher")
        page.fill("#password_input", slips(trial)["teacher"])
        page.click("#login_submit")
        page.wait_for_url("https://teacher.class.localhost:*/user/teacher/lab**", timeout=180_000)
        for address, outcome in {
            hub.replace("//", "//mara."): [False, "closed"],
            hub: [True, '{"status": 403, "message": null}'],
        }.items():
            page.route(f"{address}/user/mara/page", lambda route: route.fulfill(body="<p>", content_type="text/html"))
            page.goto(f"{address}/user/mara/page")
            assert page.evaluate(STEAL, hub) == outcome


@needs_a_machine
def test_a_class_is_removed_when_the_answer_is_yes(trial, tmp_path):
    """Comes last. What learners have closed and linked is removed with the rest, and nothing behind a link."""
    end(trial, signal.SIGTERM)
    user = trial.account("mara")
    (tmp_path / "kept").touch()
    act = f"cd; mkdir -p closed/deeper; ln -s {tmp_path} closed/deeper/link; chmod 0 closed/deeper closed"
    subprocess.run(["sh", "-c", act], check=True, env={"HOME": user.pw_dir}, **accounts.as_user(user))
    for answer, code in (("no", 1), ("remove", 0)):
        many = len(accounts.members(trial.group))
        said, returned = run(trial, "--remove", input=answer)
        assert said.startswith(f"This removes {many} accounts with all work") and returned == code, said
        assert bool(accounts.members(trial.group)) == Path(user.pw_dir).exists() == bool(code)
    assert set(os.listdir(trial.folder)) == {"homes", "said.txt"} and (tmp_path / "kept").exists()
    assert not any(trial.group in Path("/etc", name).read_text() for name in ("group", "passwd"))
