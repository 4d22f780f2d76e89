"""Who is in a class: names, the Unix accounts behind them, and their processes.

A name of the hub, like "mara", is the account "class-mara" of the system, in the group "class". Two names never share
an account, because a name may hold nothing that the account's name would lose. The account "class_progress", which no
name can be, reads the copies of the learners' work and owns nothing.
"""

import contextlib
import grp
import os
import pwd
import re
import subprocess
import time
from pathlib import Path

NAME = "[a-z][a-z0-9]{0,19}"  # what is valid in the hub, in an address and as an account, unchanged


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
    home = ["--create-home", "--base-dir", str(homes)]
    entry = _entry(user, *home, "--gid", group, "--shell", "/bin/bash")
    if entry.pw_gid != grp.getgrnam(group).gr_gid:
        raise PermissionError(f"The account {user} of this machine is not in the group {group}: it is not the class's.")
    os.chmod(entry.pw_dir, 0o700)
    return entry


def ensure_reader(group):
    """Make the account that reads the copies of the learners' work if there is none; return its entry. Needs root."""
    nothing = ["--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
    return _entry(f"{group}_progress", *nothing, "--user-group")


def _entry(user, *options):
    """Return an account's entry in the list of accounts, after making it if there is none."""
    try:
        return pwd.getpwnam(user)
    except KeyError:
        subprocess.run(["useradd", *options, user], check=True)
        return pwd.getpwnam(user)


def members(group):
    """Return {name: account entry} of all learners of the class, in alphabetical order."""
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError:
        return {}
    names = {user.pw_name.removeprefix(f"{group}-"): user for user in pwd.getpwall() if user.pw_gid == gid}
    return dict(sorted(names.items()))


def own(group):
    """Return {name: account entry} of the accounts that a class made: no other account that is in its group."""
    return {name: user for name, user in members(group).items() if user.pw_name == account(group, name)}


def remove(group):
    """Remove the accounts of a class with their homes, after their processes, and then the group. Needs root."""
    users = own(group).values()
    end_processes(users)
    for user in users:
        _delete(user.pw_name, "--remove")
    with contextlib.suppress(KeyError):
        # Never with --remove: this account has no home, and userdel deletes whatever folder stands in its place.
        _delete(pwd.getpwnam(f"{group}_progress").pw_name)
    if not members(group):
        with contextlib.suppress(KeyError):
            grp.getgrnam(group)
            subprocess.run(["groupdel", group], check=True)


def _delete(user, *options):
    drop = ["userdel", "--force", *options, user]  # forced: an ended process still counts as the user's
    done = subprocess.run(drop, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{user} could not be removed: {done.stderr.strip()}")


def end_processes(users):
    """End all processes of these users, and wait until they are gone, ten seconds at most. Needs root.

    users: entries of the list of accounts. A user's processes end in one step, so none can start another in between.
    """
    end = time.monotonic() + 10
    while (left := [user for user in users if user.pw_uid in _uids_with_processes()]) and time.monotonic() < end:
        for user in left:
            with contextlib.suppress(subprocess.TimeoutExpired):  # it was stopped by one of those that it should end
                as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
                subprocess.run(["sh", "-c", "kill -KILL -1"], **as_user, stdin=subprocess.DEVNULL, timeout=1)
        time.sleep(0.05)


def _uids_with_processes():
    """Return the users of all processes, without those that have ended and that nobody waits for."""
    uids = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # not who owns the folder: a process can see to it that root does
            status = (process / "status").read_bytes()
            uids |= {int(uid) for uid in re.findall(rb"\nState:\t[^ZX](?:.*\n)+?Uid:\t(\d+)", status)}
    return uids
