"""Who is in a class: names, the Unix accounts behind them, and passwords.

A name of the hub, like "mara", is the account "class-mara" of the system, in the group "class". Two names never share
an account, because a name may hold nothing that the account's name would lose.
"""

import contextlib
import csv
import dbm
import fcntl
import grp
import os
import pwd
import re
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

NAME = "[a-z][a-z0-9]{0,19}"  # what is valid in the hub, in an address and as an account, unchanged
LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # nothing that looks like another letter on paper


class NamesError(ValueError):
    """A list of learners that cannot be used: which line, and what is expected."""


def read_names(path):
    """Return the names in a text file, one a line; empty lines and what follows a # are left out."""
    names = {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NamesError(f"There is no {path}. Make a text file, a name a line, like mara or mara2.") from None
    except UnicodeDecodeError:
        raise NamesError(f"{path} is not plain text. Make a text file, a name a line, like mara or mara2.") from None
    for number, line in enumerate(text.splitlines(), 1):
        name = line.partition("#")[0].strip().lower()
        if not name:
            continue
        if not re.fullmatch(NAME, name):
            raise NamesError(
                f"{path.name}, line {number}: {line.strip()!r} cannot be a name to log in with. Expected are a letter "
                "and up to 19 letters and digits, all from a to z and 0 to 9, like mara or mara2."
            )
        if name in names:
            raise NamesError(f"{path.name}, line {number}: {name!r} is on line {names[name]} already.")
        names[name] = number
    return list(names)


def account(group, name):
    """Return the name of a learner's Unix account."""
    return f"{group}-{name}"


def ensure(group, name, homes):
    """Make a learner's account if there is none, and return its entry in the list of accounts. Needs root.

    Raises PermissionError if the system has an account of that name which is not one of this class.
    """
    user = account(group, name)
    try:
        grp.getgrnam(group)
    except KeyError:
        subprocess.run(["groupadd", group], check=True)
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        make = ["useradd", "--create-home", "--base-dir", str(homes), "--gid", group, "--shell", "/bin/bash", user]
        subprocess.run(make, check=True)
        found = pwd.getpwnam(user)
    if found.pw_gid != grp.getgrnam(group).gr_gid:
        raise PermissionError(f"The account {user} of this machine is not in the group {group}: it is not the class's.")
    os.chmod(found.pw_dir, 0o700)
    return found


def members(group):
    """Return {name: account entry} of all learners of the class, in alphabetical order."""
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError:
        return {}
    found = {user.pw_name.removeprefix(f"{group}-"): user for user in pwd.getpwall() if user.pw_gid == gid}
    return dict(sorted(found.items()))


def own(group):
    """Return {name: account entry} of the accounts that a class made: no other account that is in its group."""
    return {name: user for name, user in members(group).items() if user.pw_name == account(group, name)}


def remove(group):
    """Remove the accounts of a class with their homes, after their processes, and then the group. Needs root."""
    users = own(group)
    end_processes({user.pw_uid for user in users.values()})
    for user in users.values():
        drop = ["userdel", "--force", "--remove", user.pw_name]  # forced: an ended process still counts as the user's
        done = subprocess.run(drop, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"{user.pw_name} could not be removed: {done.stderr.strip()}")
    if not members(group):
        with contextlib.suppress(KeyError):
            grp.getgrnam(group)
            subprocess.run(["groupdel", group], check=True)


def end_processes(uids):
    """End all processes of these users; wait until they are gone, ten seconds at most."""
    end = time.monotonic() + 10
    while (left := _processes(uids)) and time.monotonic() < end:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def _processes(uids):
    """Return the numbers of the processes of these users, without those that have ended and that nobody waits for."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid in uids and (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


@contextlib.contextmanager
def alone(database):
    """Let one program at a time open the passwords: not every kind of dbm, in which the hub keeps them, sees to it."""
    with open(os.open(f"{database}.lock", os.O_RDWR | os.O_CREAT, 0o600)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def give_passwords(database, slips, names, again=False):
    """Give each name that has none a password, with again=True each name; return [(name, password)] of the new ones.

    It is written into slips (CSV: name, password), in place of an old one, and hashed into database.
    """
    import bcrypt  # comes with the authenticator

    with alone(database):
        with dbm.open(str(database), "c", 0o600) as stored:
            wanted = [name for name in names if again or name.encode() not in stored]
        new = [
            (name, "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(3))) for name in wanted
        ]
        hashed = {name: bcrypt.hashpw(password.encode(), bcrypt.gensalt()) for name, password in new}
        if new:
            write_slips(Path(slips), new)
            with dbm.open(str(database), "c", 0o600) as stored:
                for name, secret in hashed.items():
                    stored[name] = secret
    return new


def write_slips(slips, new):
    """Put [(name, password)] into the list that is handed out: a name's new line in place of its old ones."""
    left, rows = dict(new), []
    if slips.exists():
        with open(slips, newline="") as file:
            for row in csv.reader(file):
                name = row[0] if row else ""
                if name in left:
                    rows.append((name, left.pop(name)))
                elif name not in dict(new):
                    rows.append(row)
    beside = slips.with_suffix(".new")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", newline="") as file:
        csv.writer(file).writerows([*rows, *left.items()])
    beside.replace(slips)


if __name__ == "__main__":  # in the class's own environment, which has bcrypt: [--again] DATABASE SLIPS NAME...
    given = [word for word in sys.argv[1:] if word != "--again"]
    made = give_passwords(given[0], given[1], given[2:], "--again" in sys.argv)
    print(made[0][1] if "--again" in sys.argv else len(made))
