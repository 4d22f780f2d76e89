"""Who is in a class: names, the Unix accounts behind them, and passwords.

A name of the hub, like "mara", is the account "class-mara" of the system, in the group "class". Two names never share
an account, because a name may hold nothing that the account's name would lose.
"""

import csv
import dbm
import grp
import os
import pwd
import re
import secrets
import subprocess
import sys

NAME = "[a-z][a-z0-9]{0,19}"  # what is valid in the hub, in an address and as an account, unchanged
LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # nothing that looks like another letter on paper


class NamesError(ValueError):
    """A list of learners that cannot be used: which line, and what is expected."""


def read_names(path):
    """Return the names in a text file, one a line; empty lines and what follows a # are left out."""
    names = {}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
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


def give_passwords(database, slips, names):
    """Give each name that has none a password; write it into slips (CSV: name, password), hashed into database."""
    import bcrypt  # comes with the authenticator

    new = []
    with dbm.open(str(database), "c", 0o600) as stored:
        for name in names:
            if name.encode() not in stored:
                password = "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(3))
                stored[name] = bcrypt.hashpw(password.encode(), bcrypt.gensalt())
                new.append((name, password))
    if new:
        with open(os.open(slips, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", newline="") as file:
            csv.writer(file).writerows(new)
    return new


if __name__ == "__main__":  # in the class's own environment, which has bcrypt: DATABASE SLIPS NAME...
    print(len(give_passwords(sys.argv[1], sys.argv[2], sys.argv[3:])))
