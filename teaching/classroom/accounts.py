"""Who is in a class: names, the Unix accounts behind them, and their processes.

A name of the hub, like "mara", is the account "class-mara" of the system, in the group "class". The account
"class_progress", which no name can be, reads the copies of the learners' work and owns nothing.

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

import psutil

TEACHER = "teacher"  # the instructor's name
NO_DOMAIN = (
    "Without --domain a learner whose link somebody opens can act as that person: only for people who trust each other."
)
NAME = "[a-z][a-z0-9]{0,19}"  # what is valid in the hub, in an address and as an account, unchanged


class ClassError(Exception):
    """Something that keeps a class from starting: what it is, and the way out."""


def read_names(path):
    """Return the names in a text file, one a line, empty lines left out; ClassError names the line that is none."""
    names = [line.strip().lower() for line in path.read_text("utf-8-sig", "replace").splitlines()]
    for number, name in enumerate(names, 1):
        if name and not re.fullmatch(NAME, name):
            raise ClassError(
                f"{path.name}, line {number}: {name!r} cannot be a name to log in with. Expected are a letter "
                "and up to 19 letters and digits, all from a to z and 0 to 9, like mara or mara2."
            )
        if name and name in [TEACHER, *names[: number - 1]]:
            raise ClassError(f"{path.name}, line {number}: {name!r} is yours already, or on an earlier line.")
    return list(filter(None, names))


def ensure(group, name, homes):
    """Make a learner's account if there is none, and return its entry in the list of accounts. Needs root.

    Raises PermissionError if the system has an account of that name which is not one of this class.
    """
    subprocess.run(["groupadd", "--force", group], check=True)
    options = ["--create-home", "--base-dir", str(homes), "--gid", group, "--shell", "/bin/bash"]
    entry = _entry(f"{group}-{name}", *options)
    if entry.pw_gid != grp.getgrnam(group).gr_gid or not entry.pw_uid:
        raise PermissionError(f"The account {entry.pw_name} is not in the group {group}: it is not the class's.")
    check_home(entry, homes)
    os.chmod(entry.pw_dir, 0o700)
    return entry


def ensure_reader(group):
    """Make the account that reads the copies of the learners' work if there is none; return its entry. Needs root."""
    options = ["--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
    return _entry(f"{group}_progress", *options, "--user-group")


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
    users = sorted(user for user in pwd.getpwall() if user.pw_gid == gid and user.pw_uid)
    beginning = f"{group}-"
    return {user.pw_name.removeprefix(beginning): user for user in users if user.pw_name.startswith(beginning)}


def as_user(user):
    """Return the options with which subprocess runs a program as an account."""
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def check_home(user, homes):
    """Raise PermissionError unless an account's home is its own folder in the class's folder of homes, and no link."""
    home, about = Path(user.pw_dir), os.lstat(user.pw_dir)
    in_place = home.name == user.pw_name and home.parent.resolve() == Path(homes).resolve()
    if not in_place or not stat.S_ISDIR(about.st_mode) or about.st_uid != user.pw_uid:
        raise PermissionError(
            f"{home}, the home of the account {user.pw_name}, is not the class's: expected is a folder "
            f"{Path(homes, user.pw_name)} that belongs to the account."
        )


def delete_home(user, homes):
    """Delete the home of one account of the class, if it has one. Needs root.

    What lies in it is deleted as its owner, who can delete nothing of anybody else's; root removes the empty folder.
    Raises PermissionError for every other folder (check_home), OSError if something is left.
    """
    if not os.path.lexists(user.pw_dir):
        return
    check_home(user, homes)
    empty = "chmod -R u+rwX . && find . -xdev -mindepth 1 -delete"
    subprocess.run(["sh", "-c", empty], cwd=user.pw_dir, stderr=subprocess.DEVNULL, **as_user(user))
    os.rmdir(user.pw_dir)


def remove(group, homes):
    """Remove the accounts of a class after their processes and homes, and then the group. Needs root."""
    users = members(group).values()
    end_processes(users)
    for user in users:
        delete_home(user, homes)  # forced below: a process that has ended still counts as the user's
        subprocess.run(["userdel", "--force", user.pw_name], check=True, stderr=subprocess.DEVNULL)
    for command in (["userdel", f"{group}_progress"], ["groupdel", group]):  # either may be missing
        subprocess.run(command, stderr=subprocess.DEVNULL)


def end_processes(users):
    """End all processes of these users, never root's, and wait until they are gone, ten seconds at most. Needs root.

    users: entries of the list of accounts. A user's processes end in one step, so none can start another in between.
    """
    end = time.monotonic() + 10
    while time.monotonic() < end:
        running = {process.info["uids"].real for process in psutil.process_iter(["uids", "status"]) if _lives(process)}
        left = [user for user in users if user.pw_uid and user.pw_uid in running]
        if not left:
            return
        for user in left:
            with contextlib.suppress(subprocess.TimeoutExpired):  # it was stopped by one of those that it should end
                subprocess.run(["sh", "-c", "kill -KILL -1"], timeout=1, **as_user(user))
        time.sleep(0.05)


def _lives(process):
    """Return whether a process has not ended. One that has stays in the list until its parent asks for it."""
    return process.info["uids"] and process.info["status"] not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
