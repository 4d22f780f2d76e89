"""Passwords: made and handed out as a list, kept as hashes, how long to wait after wrong ones, and whose turn it is."""

import asyncio
import contextlib
import csv
import dbm
import fcntl
import heapq
import itertools
import os
import secrets
import sys
import time
from pathlib import Path

LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # nothing that looks like another letter on paper
ROUNDS = 10  # of bcrypt: 0.08 s of a processor, so that a class which comes in at one moment does not wait for it


class Pauses:
    """After wrong passwords a name has to wait at the address they came from: 1 s, then 2, 4, ... up to LONGEST.

    Who can choose addresses is slowed as well: after ANYWHERE wrong ones in a row, the name waits at every address but
    those where its password was right before.
    """

    LONGEST, FORGET = 30, 600  # seconds
    ANYWHERE = 20

    def __init__(self, clock=time.monotonic):
        self.wrong = {}  # {(name, address), address "" for all of them: (how many in a row, when the last)}
        self.right, self.clock = set(), clock

    def left(self, name, address):
        """Return the seconds that this name has to wait at this address, 0 if it has not."""
        free = {(name, address): 0} | ({} if (name, address) in self.right else {(name, ""): self.ANYWHERE})
        waits = [0]
        for key in free.keys() & self.wrong.keys():
            count, last = self.wrong[key]
            if count > free[key]:
                waits.append(last + min(2 ** (count - free[key] - 1), self.LONGEST) - self.clock())
        return max(waits)

    def note(self, name, address, right):
        """Take down that a password was right or wrong."""
        now = self.clock()
        self.wrong = {key: row for key, row in self.wrong.items() if now - row[1] < self.FORGET}
        if right:
            self.right.add((name, address))
            self.wrong.pop((name, address), None)
            return
        for key in ((name, address), (name, "")):
            self.wrong[key] = self.wrong.get(key, (0, now))[0] + 1, now


class Turns:
    """Some go on at a time. Of who waits, the fewest wrong passwords go first; of equals, who came last.

    So whoever sends many passwords at once, for many names, keeps nobody waiting who comes after them.
    """

    def __init__(self, places):
        self.places, self.waiting, self.arrivals = places, [], itertools.count(0, -1)

    @contextlib.asynccontextmanager
    async def turn(self, wrong):
        """Wait for a turn; wrong: how many wrong passwords came before."""
        if self.places:
            self.places -= 1
        else:
            turn = asyncio.get_running_loop().create_future()
            heapq.heappush(self.waiting, (wrong, next(self.arrivals), turn))
            await turn
        try:
            yield
        finally:
            if self.waiting:
                heapq.heappop(self.waiting)[-1].set_result(None)
            else:
                self.places += 1


@contextlib.contextmanager
def opened(database):
    """Yield the hashes by name, to one program at a time: not every kind of dbm, in which they are, sees to that."""
    with open(os.open(f"{database}.lock", os.O_RDWR | os.O_CREAT, 0o600)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with dbm.open(str(database), "c", 0o600) as hashes:
            yield hashes


def hashed(password):
    """Return what is kept of a password. Takes a processor for a while: not for the hub's loop."""
    import bcrypt  # there in the class's own environment only

    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(ROUNDS))


def matches(password, kept):
    """Return whether a password is the one that kept was made of. Takes a processor for a while, too."""
    import bcrypt

    try:
        return bcrypt.checkpw(password.encode(), kept)
    except ValueError:  # no password that bcrypt takes: over 72 bytes, or with a zero in it
        return False


def give(database, slips, names, again=False):
    """Give each name that has none a password, with again=True each name; return [(name, password)] of the new ones.

    It is written into slips (CSV: name, password), in place of an old one, and its hash into database.
    """
    with opened(database) as hashes:
        wanted = [name for name in names if again or name.encode() not in hashes]
    new = [(name, "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(3))) for name in wanted]
    kept = {name: hashed(password) for name, password in new}
    if new:
        write_slips(Path(slips), new)
        with opened(database) as hashes:
            for name, secret in kept.items():
                hashes[name] = secret
    return new


def write_slips(slips, new):
    """Put [(name, password)] into the list that is handed out: a name's new line in place of its old ones."""
    rows = {}
    if slips.exists():
        with open(slips, newline="") as file:
            rows = {row[0]: row for row in csv.reader(file) if row}
    rows |= {row[0]: row for row in new}
    beside = slips.with_suffix(".new")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", newline="") as file:
        csv.writer(file).writerows(rows.values())
    beside.replace(slips)


if __name__ == "__main__":  # in the class's own environment, which has bcrypt: [--again] DATABASE SLIPS NAME...
    again, (database, slips, *names) = "--again" in sys.argv, [word for word in sys.argv[1:] if word != "--again"]
    new = give(database, slips, names, again)
    print(new[0][1] if again else len(new))
