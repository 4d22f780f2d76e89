"""Who is in a class: names, the Unix accounts behind them, and their processes.

A name of the hub, like "mara", is the account "class-mara" of the system, in the group "class". Two names never share
an account, because a name may hold nothing that the account's name would lose. The account "class_progress", which no
name can be, reads the copies of the learners' work and owns nothing.

No home is ever removed by userdel, which as root deletes whatever folder an account calls its home: see delete_home.
"""

import contextlib
import grp
import os
import pwd
import re
import stat
import subprocess
import time
from pathlib import Path

NOWHERE = "/nonexistent"  # the home of an account that has none
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
    if entry.pw_gid != grp.getgrnam(group).gr_gid or entry.pw_uid == 0:
        raise PermissionError(f"The account {user} of this machine is not in the group {group}: it is not the class's.")
    check_home(entry, homes)
    os.chmod(entry.pw_dir, 0o700)
    return entry


def ensure_reader(group):
    """Make the account that reads the copies of the learners' work if there is none; return its entry. Needs root."""
    nothing = ["--system", "--no-create-home", "--home-dir", NOWHERE, "--shell", "/usr/sbin/nologin"]
    entry = _entry(f"{group}_progress", *nothing, "--user-group")
    if entry.pw_dir != NOWHERE or entry.pw_uid == 0:
        raise PermissionError(f"The account {entry.pw_name} of this machine has a home: it is not the class's.")
    return entry


def _entry(user, *options):
    """Return an account's entry in the list of accounts, after making it if there is none."""
    try:
        return pwd.getpwnam(user)
    except KeyError:
        subprocess.run(["useradd", *options, user], check=True)
        return pwd.getpwnam(user)


def members(group):
    """Return {name: account entry} of all learners of the class, in alphabetical order; of no other account."""
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError:
        return {}
    users = {user.pw_name.removeprefix(f"{group}-"): user for user in pwd.getpwall() if user.pw_gid == gid}
    return {name: user for name, user in sorted(users.items()) if user.pw_name == account(group, name) and user.pw_uid}


def check_home(user, homes):
    """Raise PermissionError unless an account's home is its own folder in the class's folder of homes, and no link."""
    home = Path(user.pw_dir)
    about = home.lstat()
    if home.name != user.pw_name or home.parent.resolve() != Path(homes).resolve():
        reason = f"it is not {Path(homes, user.pw_name)}"
    elif not stat.S_ISDIR(about.st_mode):
        reason = "it is no folder"
    elif about.st_uid != user.pw_uid:
        reason = "it belongs to a different account"
    else:
        return
    raise PermissionError(f"{home}, the home of the account {user.pw_name}, is not the class's: {reason}.")


def delete_home(user, homes):
    """Delete the home of one account of the class, if it has one. Needs root.

    What lies in it is deleted as its owner, who can delete nothing of anybody else's; root removes the empty folder.
    Raises PermissionError for every other folder (check_home) and for a disk of its own, OSError if something is left.
    """
    if not os.path.lexists(user.pw_dir):
        return
    check_home(user, homes)
    if os.path.ismount(user.pw_dir):
        raise PermissionError(f"{user.pw_dir} is a disk of its own. Unmount it first.")
    empty = "chmod -R u+rwX . && find . -xdev -mindepth 1 -delete"
    _run_as(user, "sh", "-c", empty, cwd=user.pw_dir, stderr=subprocess.DEVNULL)
    os.rmdir(user.pw_dir)


def remove(group, homes):
    """Remove the accounts of a class after their processes and homes, and then the group. Needs root."""
    users = members(group).values()
    end_processes(users)
    for user in users:
        delete_home(user, homes)
        delete_account(user)
    with contextlib.suppress(KeyError):
        delete_account(pwd.getpwnam(f"{group}_progress"))
    for name in (group, f"{group}_progress"):
        subprocess.run(["groupdel", name], capture_output=True)  # it refuses a group that is still somebody's


def delete_account(user):
    """Delete an account that has no home; PermissionError if it has one, OSError if it cannot be deleted."""
    if os.path.lexists(user.pw_dir):
        raise PermissionError(f"{user.pw_name} still has a home, {user.pw_dir}: the account stays.")
    drop = ["userdel", "--force", user.pw_name]  # forced: a process that has ended still counts as the user's
    process = subprocess.run(drop, capture_output=True, text=True)
    if process.returncode:
        raise OSError(f"{user.pw_name} could not be removed: {process.stderr.strip()}")


def end_processes(users):
    """End all processes of these users, and wait until they are gone, ten seconds at most. Needs root.

    users: entries of the list of accounts. A user's processes end in one step, so none can start another in between.
    """
    end = time.monotonic() + 10
    while (left := [user for user in users if user.pw_uid in _uids_with_processes()]) and time.monotonic() < end:
        for user in left:
            with contextlib.suppress(subprocess.TimeoutExpired):  # it was stopped by one of those that it should end
                _run_as(user, "sh", "-c", "kill -KILL -1", timeout=1)
        time.sleep(0.05)


def _run_as(user, *command, **options):
    """Run a command as an account that is not root's."""
    if not user.pw_uid:
        raise PermissionError(f"{user.pw_name} is root, who could reach everything.")
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    subprocess.run(command, stdin=subprocess.DEVNULL, **as_user, **options)


def _uids_with_processes():
    """Return the users of all processes, without those that have ended and that nobody waits for."""
    uids = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # not who owns the folder: a process can see to it that root does
            status = (process / "status").read_bytes()
            uids |= {int(uid) for uid in re.findall(rb"\nState:\t[^ZX](?:.*\n)+?Uid:\t(\d+)", status)}
    return uids
