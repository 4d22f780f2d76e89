"""Passwords: made and handed out as a list, kept as hashes, a file a name, in a folder that only root reads."""

import csv
import hashlib
import hmac
import os
import secrets

LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # nothing that looks like another letter on paper
SALT = 16  # bytes


def give(folder, slips, names):
    """Give each name a password in place of an old one; return {name: password}.

    It goes into the list that is handed out, slips (CSV: name, password), and its hash into the folder.
    """
    new = {name: "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(3)) for name in names}
    rows = {}
    if slips.exists():
        with open(slips, newline="") as file:
            rows = dict(csv.reader(file))
    beside = slips.with_suffix(".new")
    with open(beside, "w", newline="") as file:
        csv.writer(file).writerows((rows | new).items())
    beside.chmod(0o600)
    beside.replace(slips)
    for name, password in new.items():
        keep(folder, name, password)
    return new


def keep(folder, name, password):
    """Make this the password of a name, in one step. Takes a processor for a while: not for the hub's loop."""
    folder.mkdir(mode=0o700, exist_ok=True)
    salt = os.urandom(SALT)
    beside = folder / f".{name}"
    beside.write_bytes(salt + _hashed(password, salt))
    beside.replace(folder / name)


def is_right(folder, name, password):
    """Return whether this is the password of a name that has one. Takes a processor for a while, too."""
    kept = (folder / name).read_bytes()
    return hmac.compare_digest(kept[SALT:], _hashed(password, kept[:SALT]))


def _hashed(password, salt):
    return hashlib.scrypt(password.encode(), salt=salt, n=1 << 14, r=8, p=1)
