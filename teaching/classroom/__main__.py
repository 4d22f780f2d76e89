"""Run a class on this machine: make class ARGS="--learners names.txt"      (as root; --help lists the rest)"""

import argparse
import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import requests

from teaching.classroom import accounts, collect, install, passwords, ports
from teaching.classroom.accounts import TEACHER, ClassError

OPTIONS = {  # what a folder remembers: (what holds until somebody says otherwise, how it is read, what it is)
    "learners": ([], Path, "who may log in: a text file, a name a line"),
    "open": (False, None, "anyone may, with a new name and password"),
    "host": ("127.0.0.1", str, "127.0.0.1, or 0.0.0.0 for other machines to reach it"),
    "port": (8000, int, "8000"),
    "domain": ("", str.lower, "class.example.org, if it and all names under it lead here: an address a learner"),
    "cert": ("", os.path.abspath, "the certificate for https, with --key"),
    "key": ("", os.path.abspath, "its key"),
    "memory": (2.5, float, "GB that one process of a learner may hold (2.5)"),
    "idle": (60, float, "minutes after which an unused server is stopped (60)"),
    "homes": ("/home", os.path.abspath, "where new learners' homes are made (/home)"),
}
DEFAULTS = {name: default for name, (default, *_) in OPTIONS.items()} | {"group": "class", "trial_token": ""}
PARTS = ("course", "editions", "environments", "run", "hub", "progress")  # in the folder of a class, by a class
LARGEST_LOG = 16 << 20  # bytes


def parse(words):
    parser = argparse.ArgumentParser(
        prog="make class", description="JupyterHub for one class. What is not given keeps the folder's last value."
    )
    add = parser.add_argument
    add("--folder", type=lambda text: Path(text).resolve(), default="/srv/layernorm-class", help="where it lives")
    for name, (_, read, what) in OPTIONS.items():
        add(f"--{name}", help=what, **({"type": read} if read else {"action": "store_true", "default": None}))
    add("--upgrade", action="store_true", help="only install the present edition of the course")
    add("--collect", metavar="OUT", type=Path, help="only copy the learners' notebooks to OUT/NAME/")
    add("--password", metavar="NAME", type=str.lower, help="only give NAME a new one, also while the class runs")
    add("--remove", action="store_true", help="only remove the class with all its work; asks first")
    add("--trial", metavar="N", type=int, help="only let N learners come at once to a class of its own")
    add("--lesson", metavar="N", type=int, default=1, help="which lesson these learners run (1)")
    return parser.parse_args(words)


def settings(asked):
    """Return what the class is run with: what was asked, else what the folder remembers, else the defaults."""
    values = DEFAULTS | {name: ports.free_port() for name in ("hub_port", "proxy_port", "page_port")}
    with contextlib.suppress(FileNotFoundError):
        remembered = collect.settings_of(asked.folder)
        values |= {name: remembered[name] for name in DEFAULTS.keys() & remembered}
    values |= {name: value for name, value in vars(asked).items() if name in OPTIONS and value is not None}
    if asked.learners:
        values["learners"], values["open"] = accounts.read_names(asked.learners), bool(asked.open)
    if bool(values["cert"]) != bool(values["key"]):
        raise ClassError("--cert and --key belong together: one of them is missing.")
    if not re.fullmatch(r"([a-z0-9-]+\.)+[a-z]+|", values["domain"]):
        raise ClassError(f"--domain {values['domain']}: expected is a name like class.example.org, without https://.")
    if not values["learners"] and not values["open"]:
        raise ClassError(
            "Nobody could log in. Say who may: --learners names.txt (a name a line; each gets a password), or --open "
            "(whoever reaches the page chooses a name and a password)."
        )
    return values


@contextlib.contextmanager
def lock(folder):
    """Hold the class in folder for one program."""
    file = folder / "hub/lock"
    if not file.exists() and any((folder / name).exists() for name in PARTS):  # --remove deletes them, /var/run perhaps
        raise ClassError(f"{folder} holds what is not a class's. Name a folder of its own: --folder.")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(file, "a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClassError(
                "This class is running already. In a second terminal only --collect, --upgrade and --password work; "
                "Ctrl-C in the first one ends it."
            ) from None
        yield


def give_passwords(folder, names):
    """Give each of these names a new password; return ({name: password}, the list to hand out)."""
    slips = folder / "hub/passwords.csv"
    return passwords.give(folder / "hub/secrets", slips, names), slips


def new_password(folder, name):
    """Give one of the class a new password and print it. The hub may run: nobody is interrupted."""
    values = collect.settings_of(folder)
    if name not in {TEACHER, *values["learners"], *accounts.members(values["group"])}:
        raise ClassError(f"There is no {name} in this class. Its names: {folder / 'hub/passwords.csv'}")
    new, slips = give_passwords(folder, [name])
    print(f"{name} logs in with {new[name]} from now on; {slips} has it in the old one's place.")


def remove(folder):
    """Remove a class that does not run, after a question: its accounts with their homes, its group, its folder."""
    values = collect.settings_of(folder)
    with lock(folder):
        print(
            f"This removes {len(accounts.members(values['group']))} accounts with all work in their homes, the group "
            f"{values['group']} and the class in {folder}. --collect OUT copies the work first."
        )
        if input("Type remove to go on: ").strip() != "remove":
            raise ClassError("Nothing was removed.")
        accounts.remove(values["group"], values["homes"])
        (folder / "course").unlink(missing_ok=True)
        for name in PARTS:
            shutil.rmtree(folder / name, ignore_errors=True)
    with contextlib.suppress(OSError):  # it holds something that is not the class's
        folder.rmdir()
    print("Removed.")


def start_hub(folder):
    """Start the hub, which writes into hub/hub.log; return its process, which ends when this program does."""
    hub, programs = folder / "hub", (folder / "course/environment").resolve() / "bin"
    for name in ("jupyterhub.sqlite", "jupyterhub-proxy.pid"):  # nothing of a class that was killed is taken up again
        (hub / name).unlink(missing_ok=True)
    environment = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(install.ROOT)}
    run = [programs / "python", "-m", "jupyterhub", f"--config={install.HERE / 'jupyterhub_config.py'}"]
    with open(hub / "hub.log", "ab") as log:
        return subprocess.Popen(  # of a session of its own, so that Ctrl-C reaches it through run_hub alone
            ["setpriv", "--pdeathsig", "KILL", *run],
            cwd=hub,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def run_hub(folder, values):
    """Run the hub until Ctrl-C; say where it is when it answers; return the exit status."""
    log = folder / "hub/hub.log"
    accounts.end_processes(accounts.members(values["group"]).values())  # of a class that was killed
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup lets a class outlive its terminal
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    hub = start_hub(folder)
    try:
        while hub.poll() is None and not answers(values):
            time.sleep(0.2)
        if hub.poll() is None:
            print(
                f"The class is at {address(values)} until you press Ctrl-C here. The hub's log: {log}\n"
                f"Your page: {address(values)}/hub/home (log in as {TEACHER})\n"
                f"Passwords, yours too: {folder / 'hub/passwords.csv'}",
                *([] if values["domain"] else [accounts.NO_DOMAIN]),
                sep="\n",
                flush=True,
            )
        while hub.poll() is None:
            time.sleep(1)
            if log.stat().st_size > LARGEST_LOG:
                shutil.copyfile(log, log.with_suffix(".old"))
                os.truncate(log, 0)
        lines = log.read_text(errors="replace").splitlines()[-15:]
        print("The hub has ended by itself. The end of its log,", f"{log}:", *lines, sep="\n", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sign, signal.SIG_IGN)
        hub.terminate()
        with contextlib.suppress(OSError):  # the terminal itself may be gone
            print("\nStopping every server, which may take some seconds.", flush=True)
        hub.wait()
    finally:
        accounts.end_processes(accounts.members(values["group"]).values())
    print("The class has ended. What learners saved is in their homes; make class goes on.", flush=True)
    return 0


def answers(values):
    """Return whether a browser would get the last page that the proxy is told of, which sends it to the hub's login."""
    host = "127.0.0.1" if values["host"] == "0.0.0.0" else values["host"]
    requests.packages.urllib3.disable_warnings()  # the certificate is made out to an address that is not this one
    with requests.Session() as browser:
        browser.trust_env = browser.verify = False  # never by way of a proxy of the network
        try:
            page = f"{address(values | {'host': host, 'domain': ''})}/services/progress/"
            own = {"Host": f"progress--service.{values['domain']}"}  # its name, which may not lead here yet
            answer = browser.get(page, headers=own, allow_redirects=False, timeout=5)
            return "/oauth2/authorize" in answer.headers.get("Location", "")
        except requests.RequestException:  # nothing listens there yet
            return False


def address(values):
    """Return what to type in a browser: for a class that the network reaches, this machine's address in it."""
    host = values["domain"] or values["host"]
    if host == "0.0.0.0":
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect(("192.0.2.1", 9))  # nobody's address: nothing is sent, only the way is looked up
                host = probe.getsockname()[0]
        except OSError:
            host = socket.gethostname()
    return f"http{'s' * bool(values['cert'])}://{host}:{values['port']}"


def hold(folder, values):
    """Set up the class and run it until Ctrl-C; return the exit status."""
    with lock(folder):
        if not (folder / "course").exists():
            print(f"Setting up the class in {folder} (once)", flush=True)
        install.install(folder)
        accounts.ensure_reader(values["group"])
        collect.write_settings(folder, values)
        names = [name for name in (TEACHER, *values["learners"]) if not (folder / "hub/secrets" / name).exists()]
        if names:
            new, slips = give_passwords(folder, names)
            print(f"{len(new)} new passwords, to hand out: {slips}", flush=True)
        return run_hub(folder, values)


def act(asked):
    """Do the one thing that was asked for, or run the class; return the exit status."""
    folder, only = asked.folder, asked.collect or asked.upgrade or asked.password or asked.remove
    if only and not (folder / "hub/settings.json").exists():
        raise ClassError(f"There is no class in {folder}. Name the folder of one: --folder.")
    if asked.trial:
        from teaching.classroom import trial

        return trial.main(asked.trial, asked.lesson)
    if asked.remove:
        remove(folder)
    elif asked.collect:
        homes = collect.learners_homes(folder)
        for name, item, why in collect.collect(homes, asked.collect):
            print(f"{name}: {item} was not copied: {why}.")
        print(f"{asked.collect}: the work of {len(homes)} learners.")
    elif asked.upgrade:
        print(f"{install.install(folder)}: the next server that a learner starts runs on it.")
    elif asked.password:
        new_password(folder, asked.password)
    return 0 if only else hold(folder, settings(asked))


def main(words=None):
    """Do what the command line says; return the exit status."""
    asked = parse(words)
    if os.geteuid():
        print("A class needs Linux and root, because each learner gets an account: sudo make class", file=sys.stderr)
        return 1
    try:
        return act(asked)
    except (ClassError, OSError) as error:
        print(error, file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"Failed, see above: {' '.join(map(str, error.cmd))}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on.", file=sys.stderr)
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
