"""Run a class on this machine: make class ARGS="--learners names.txt"      (as root; --help lists the rest)"""

import argparse
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from teaching.classroom import accounts, collect, install

OF_A_CLASS = {  # what a folder remembers, and its default
    "learners": [],
    "open": False,
    "teacher": "teacher",
    "host": "127.0.0.1",
    "port": 8000,
    "cert": "",
    "key": "",
    "memory": 2.5,
    "idle": 60,
    "homes": "/home",
    "group": "class",
    "load_token": "",
}


def arguments(given):
    parser = argparse.ArgumentParser(
        prog="make class", description="JupyterHub for one class. What is not given keeps the folder's last value."
    )
    parser.add_argument("--folder", type=Path, default=Path("/srv/layernorm-class"), help="where the class lives")
    parser.add_argument("--learners", metavar="FILE", type=Path, help="who may log in: a text file, a name a line")
    parser.add_argument("--open", action="store_true", default=None, help="anyone may, with a new name and password")
    parser.add_argument("--teacher", help="the instructor's name to log in with (teacher)")
    parser.add_argument("--host", help="127.0.0.1, or 0.0.0.0 for other machines to reach it")
    parser.add_argument("--port", type=int, help="8000")
    parser.add_argument("--cert", help="the certificate for https, with --key")
    parser.add_argument("--key", help="its key")
    parser.add_argument("--memory", type=float, help="GB that one process of a learner may hold (2.5)")
    parser.add_argument("--idle", type=float, help="minutes after which an unused server is stopped (60)")
    parser.add_argument("--homes", help="where new learners' homes are made (/home)")
    parser.add_argument("--group", help="the group of their accounts, and how these begin (class)")
    parser.add_argument("--upgrade", action="store_true", help="only install the present edition of the course")
    parser.add_argument("--collect", metavar="OUT", type=Path, help="only copy the learners' notebooks to OUT/NAME/")
    parser.add_argument("--trial", metavar="N", type=int, help="only let N learners come at once to a class of its own")
    return parser.parse_args(given)


def settings(folder, asked):
    """Return what the class is run with: what was asked, else what the folder remembers, else the defaults."""
    file = folder / "hub/settings.json"
    values = OF_A_CLASS | {"hub_port": free_port(), "proxy_port": free_port(), "page_port": free_port()}
    if file.exists():  # the ports stay: servers that outlived a killed hub talk to it there
        values |= json.loads(file.read_text())
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


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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


def hand_out(folder, values):
    """Give a password to everyone who has none, in the class's own environment; say where they are."""
    names = [values["teacher"], *values["learners"]]
    (python, *_), where, environment = command(folder)
    give = [python, "-m", "teaching.classroom.accounts", "passwords", "passwords.csv", *names]
    new = int(subprocess.run(give, cwd=where, env=environment, check=True, stdout=subprocess.PIPE).stdout)
    if new:
        print(f"{new} new passwords, to hand out: {where / 'passwords.csv'}")


def main(given=None):
    asked = arguments(given)
    if asked.trial:
        from teaching.classroom import trial

        return trial.main(asked.trial)
    if os.name != "posix" or os.geteuid() != 0:
        print("A class needs Linux and root, because each learner gets an account: sudo make class", file=sys.stderr)
        return 1
    folder = asked.folder.resolve()
    try:
        if (asked.collect or asked.upgrade) and not (folder / "hub/settings.json").exists():
            raise install.ClassError(f"There is no class in {folder}. Name the folder of one: --folder.")
        if asked.collect:
            homes = collect.learners_homes(folder)
            for name, item, why in collect.collect(homes, asked.collect):
                print(f"{name}: {item} was not copied: {why}.")
            print(f"{asked.collect}: the notebooks of {len(homes)} learners.")
            return 0
        if asked.upgrade:
            print(f"{install.install(folder)}: the next server that a learner starts runs on it.")
            return 0
        values = settings(folder, asked)
        install.install(folder)
        write_settings(folder, values)
        hand_out(folder, values)
    except (install.ClassError, accounts.NamesError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    run, where, environment = command(folder)
    os.chdir(where)
    os.execve(run[0], run, environment)


if __name__ == "__main__":
    sys.exit(main())
