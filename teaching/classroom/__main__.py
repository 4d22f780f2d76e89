"""Run a class on this machine: make class ARGS="--learners names.txt"      (as root; --help lists the rest)"""

import argparse
import contextlib
import errno
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import requests

from teaching.classroom import accounts, collect, install, ports

OPTIONS = {  # what a folder remembers: (what holds until somebody says otherwise, how it is read, what it is)
    "learners": ([], Path, "who may log in: a text file, a name a line"),
    "open": (False, None, "anyone may, with a new name and password"),
    "teacher": ("teacher", str, "the instructor's name to log in with (teacher)"),
    "host": ("127.0.0.1", str, "127.0.0.1, or 0.0.0.0 for other machines to reach it"),
    "port": (8000, int, "8000"),
    "cert": ("", str, "the certificate for https, with --key"),
    "key": ("", str, "its key"),
    "memory": (2.5, float, "GB that one process of a learner may hold (2.5)"),
    "idle": (60, float, "minutes after which an unused server is stopped (60)"),
    "homes": ("/home", str, "where new learners' homes are made (/home)"),
    "group": ("class", str, "the group of their accounts, and how these begin (class)"),
}
OF_A_CLASS = {name: default for name, (default, *_) in OPTIONS.items()} | {"trial_token": ""}
PARTS = ("course", "editions", "environments", "run", "hub", "progress")  # in the folder of a class, by a class


def parse(words):
    parser = argparse.ArgumentParser(
        prog="make class", description="JupyterHub for one class. What is not given keeps the folder's last value."
    )
    add = parser.add_argument
    add("--folder", type=Path, default=Path("/srv/layernorm-class"), help="where the class lives")
    for name, (_, read, what) in OPTIONS.items():
        add(f"--{name}", help=what, **({"type": read} if read else {"action": "store_true", "default": None}))
    add("--upgrade", action="store_true", help="only install the present edition of the course")
    add("--collect", metavar="OUT", type=Path, help="only copy the learners' notebooks to OUT/NAME/")
    add("--password", metavar="NAME", help="only give NAME a new password, also while the class runs")
    add("--remove", action="store_true", help="only remove the class with all its work; asks first")
    add("--trial", metavar="N", type=int, help="only let N learners come at once to a class of its own")
    add("--lesson", metavar="N", type=int, default=1, help="which lesson these learners run (1)")
    return parser.parse_args(words)


def settings(folder, asked):
    """Return what the class is run with: what was asked, else what the folder remembers, else the defaults."""
    values = OF_A_CLASS | {name: ports.free_port() for name in ("hub_port", "proxy_port", "page_port")}
    with contextlib.suppress(FileNotFoundError):  # the ports stay: servers that outlived a killed hub talk to it there
        values |= collect.settings_of(folder)
    values |= {name: value for name, value in vars(asked).items() if name in OF_A_CLASS and value is not None}
    if asked.learners:
        values["learners"] = accounts.read_names(asked.learners)
        values["open"] = bool(asked.open)
    for name in ("cert", "key"):
        if values[name]:
            values[name] = str(Path(values[name]).resolve())
    if bool(values["cert"]) != bool(values["key"]):
        raise install.ClassError("--cert and --key belong together: one of them is missing.")
    if not values["learners"] and not values["open"]:
        raise install.ClassError(
            "Nobody could log in. Say who may: --learners names.txt (a name a line; each gets a password), or --open "
            "(whoever reaches the page chooses a name and a password)."
        )
    return values


@contextlib.contextmanager
def lock(folder):
    """Hold the class in folder for one program; yield the open file, which keeps it as long as anybody has it open."""
    marks = [(folder / "hub" / name).exists() for name in ("lock", "settings.json")]
    if not any(marks) and any((folder / name).exists() for name in PARTS):  # --remove deletes them, /var/run perhaps
        raise install.ClassError(f"{folder} holds what is not a class's. Name a folder of its own: --folder.")
    (folder / "hub").mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(folder / "hub/lock", os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        for seconds in (0.1,) * 10 + (None,):  # a hub whose program was killed just now ends within the second
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if seconds is None:
                    raise install.ClassError(
                        f"This class is running already (pid {file.read().strip()}). In a second terminal only "
                        "--collect, --upgrade and --password work; Ctrl-C in the first one ends it."
                    ) from None
                time.sleep(seconds)
        file.truncate(0)
        print(os.getpid(), file=file, flush=True)
        yield file


def end_old_proxy(folder):
    """End the proxy that a killed hub left behind, and forget its number, which may be another program's by now."""
    file = folder / "hub/jupyterhub-proxy.pid"
    with contextlib.suppress(OSError, ValueError):
        pid = int(file.read_text())
        process = os.pidfd_open(pid)
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"configurable-http-proxy" in line and f"{folder}/".encode() in line:
            for sign in (signal.SIGTERM, signal.SIGKILL):
                signal.pidfd_send_signal(process, sign)
                if select.select([process], [], [], 3)[0]:  # it has ended, and its port is free
                    break
        os.close(process)
    file.unlink(missing_ok=True)


def with_free_ports(values):
    """Return values, with new ports of its own where another program has taken one; ClassError if it is the class's."""
    host, port = values["host"], values["port"]
    if not 0 < port < 1 << 16:
        raise install.ClassError(f"--port {port}: expected a number from 1 to 65535.")
    try:
        ports.bind(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise install.ClassError(
                f"Port {port} is in use: a different program of this machine answers there. Say --port with a "
                f"different number, --port {port + 1} for example."
            ) from None
        raise install.ClassError(f"The class cannot be reached at {host}, port {port}: {error}") from None
    for name in ("hub_port", "proxy_port", "page_port"):
        try:
            ports.bind("127.0.0.1", values[name])
        except OSError:
            values = values | {name: ports.free_port()}
    return values


def write_settings(folder, values):
    file = folder / "hub/settings.json"
    file.write_text(json.dumps(values, indent=1))
    file.chmod(0o600)


def command(folder):
    """Return (command that runs the hub, its folder, its environment)."""
    environment = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    programs = (folder / "course/environment").resolve() / "bin"
    environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(install.ROOT)}
    config = install.HERE / "jupyterhub_config.py"
    return [str(programs / "python"), "-m", "jupyterhub", f"--config={config}"], folder / "hub", environment


def give_passwords(folder, *words):
    """Run passwords.py in the class's own environment; return (what it prints, the list to hand out)."""
    (python, *_), where, environment = command(folder)
    give = [python, "-m", "teaching.classroom.passwords", "passwords", "passwords.csv", *words]
    done = subprocess.run(give, cwd=where, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip(), where / "passwords.csv"


def hand_out(folder, values):
    """Give a password to everyone who has none; say where they are."""
    new, slips = give_passwords(folder, values["teacher"], *values["learners"])
    if int(new):
        print(f"{new} new password{'s' * (int(new) > 1)}, to hand out: {slips}")


def new_password(folder, name):
    """Give one of the class a new password and print it. The hub may run: nobody is interrupted."""
    values = collect.settings_of(folder)
    if name not in {values["teacher"], *values["learners"], *accounts.members(values["group"])}:
        raise install.ClassError(f"There is no {name} in this class. Its names: {folder / 'hub/passwords.csv'}")
    new, slips = give_passwords(folder, "--again", name)
    print(f"{name} logs in with {new} from now on; {slips} has it in the old one's place.")


def remove(folder):
    """Remove a class that does not run, after a question: its accounts with their homes, its group, its folder."""
    values = collect.settings_of(folder)
    users, agreed = accounts.members(values["group"]), False
    with lock(folder):
        print(
            f"This removes {len(users)} account{'s' * (len(users) != 1)} with all work in their homes, the group "
            f"{values['group']} and the class in {folder}. --collect OUT copies the work first."
        )
        with contextlib.suppress(EOFError):
            agreed = input("Type remove to go on: ").strip() == "remove"
        if not agreed:
            print("Nothing was removed.")
            return 1
        end_old_proxy(folder)
        accounts.remove(values["group"], values["homes"])
        for name in PARTS:
            path = folder / name
            if path.is_symlink():
                path.unlink()
            else:
                shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # it holds something that is not the class's
        folder.rmdir()
    print("Removed.")
    return 0


def start_hub(folder, log, lock_file):
    """Start the hub, which writes into log and keeps the lock; return its process."""
    run, where, environment = command(folder)
    if log.exists():
        log.replace(where / "hub.log.old")
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        return subprocess.Popen(  # of a session of its own, so that Ctrl-C reaches it through end() alone
            ["setpriv", "--pdeathsig", "KILL", *run],
            cwd=where,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            pass_fds=[lock_file.fileno()],
        )


def run_hub(folder, values, lock_file):
    """Run the hub until Ctrl-C; say where it is when it answers. What it has to say itself is in hub/hub.log."""
    log, hub, ends = folder / "hub/hub.log", None, False

    def end(*_):
        nonlocal ends
        if not ends:
            ends = True
            if hub:
                hub.terminate()
            with contextlib.suppress(OSError):  # the terminal itself may be gone
                print("\nStopping every server, which may take half a minute.", flush=True)

    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if sign != signal.SIGHUP or signal.getsignal(sign) != signal.SIG_IGN:  # nohup lets a class outlive its terminal
            signal.signal(sign, end)
    hub = start_hub(folder, log, lock_file)
    if ends:
        hub.terminate()
    while hub.poll() is None and not answers(values):
        time.sleep(0.2)
    if hub.poll() is None and not ends:
        print(
            f"The class is at {address(values)} until you press Ctrl-C here. The hub's log: {log}\n"
            f"Your page: {address(values)}/hub/home (log in as {values['teacher']})\n"
            f"Passwords, yours too: {folder / 'hub/passwords.csv'}",
            flush=True,
        )
    hub.wait()
    if ends:  # not after a hub that fell: its servers go on, and the next one finds them
        accounts.end_processes(accounts.members(values["group"]).values())
    with contextlib.suppress(OSError):
        if ends:
            print("The class has ended. What learners saved is in their homes; make class goes on.", flush=True)
            return 0
        lines = log.read_text(errors="replace").splitlines()[-15:]
        print("The hub has ended by itself. The end of its log,", f"{log}:", *lines, sep="\n", file=sys.stderr)
    return int(not ends)


def answers(values):
    """Return whether a browser would get the hub's page, and the proxy knows the ways that the hub tells it last."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(values["host"], values["host"])
    requests.packages.urllib3.disable_warnings()  # the certificate is made out to an address that is not this one
    with requests.Session() as browser:
        browser.trust_env = browser.verify = False  # never by way of a proxy of the network
        paths = [address(values | {"host": host}) + path for path in ("/hub/login", "/services/progress/")]
        try:
            login, progress = (browser.get(path, timeout=5).status_code for path in paths)
        except requests.RequestException:  # nothing listens there yet
            return False
    return login < 400 and progress != 404


def address(values):
    """Return what to type in a browser: for a class that the network reaches, this machine's address in it."""
    host = values["host"]
    if host in ("0.0.0.0", "::"):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect(("192.0.2.1", 9))  # nobody's address: nothing is sent, only the way is looked up
                host = probe.getsockname()[0]
        except OSError:
            host = socket.gethostname()
    return f"http{'s' * bool(values['cert'])}://{f'[{host}]' if ':' in host else host}:{values['port']}"


def main(words=None):
    """Do what the command line says; return the exit status."""
    asked = parse(words)
    if asked.trial:
        from teaching.classroom import trial

        return trial.main(asked.trial, asked.lesson)
    if os.name != "posix" or os.geteuid() != 0:
        print("A class needs Linux and root, because each learner gets an account: sudo make class", file=sys.stderr)
        return 1
    try:
        return act(asked, asked.folder.resolve())
    except (install.ClassError, accounts.NamesError, OSError) as error:
        print(error, file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"Failed, see above: {' '.join(map(str, error.cmd))}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on.", file=sys.stderr)
        return 130
    return 1


def act(asked, folder):
    """Do the one thing that was asked for, or run the class; return the exit status."""
    only = asked.collect or asked.upgrade or asked.password or asked.remove
    if only and not (folder / "hub/settings.json").exists():
        raise install.ClassError(f"There is no class in {folder}. Name the folder of one: --folder.")
    if asked.remove:
        return remove(folder)
    if asked.collect:
        homes = collect.learners_homes(folder)
        for name, item, why in collect.collect(homes, asked.collect):
            print(f"{name}: {item} was not copied: {why}.")
        print(f"{asked.collect}: the work of {len(homes)} learner{'s' * (len(homes) != 1)}.")
    elif asked.upgrade:
        print(f"{install.install(folder)}: the next server that a learner starts runs on it.")
    elif asked.password:
        new_password(folder, asked.password.lower())
    if only:
        return 0
    values = settings(folder, asked)
    with lock(folder) as held:
        end_old_proxy(folder)
        values = with_free_ports(values)
        if not (folder / "course").exists():
            print(f"Setting up the class in {folder} (once)", flush=True)
        install.install(folder)
        accounts.ensure_reader(values["group"])
        write_settings(folder, values)
        hand_out(folder, values)
        return run_hub(folder, values, held)


if __name__ == "__main__":
    sys.exit(main())
