"""Copy the learners' work, as root and without trusting what lies in their homes.

A learner could put a link to someone else's file or a pipe that never ends where a notebook is expected. So no link is
followed, only plain files with the expected names and of a moderate size are read, and what reads the copies afterwards
need not be root.
"""

import json
import os
import stat
from pathlib import Path

from teaching.classroom import accounts

LARGEST, ROOM, MOST = 32 << 20, 256 << 20, 100  # bytes of one file and of a learner's, files of a learner
LOGS = ("attempts.jsonl", "inventory.jsonl")


def settings_of(folder):
    """Return what the class in folder is run with."""
    return json.loads((folder / "hub/settings.json").read_text())


def write_settings(folder, values):
    """Keep what the class in folder is run with, for root alone: it holds a token."""
    file = folder / "hub/settings.json"
    file.touch(0o600)
    file.write_text(json.dumps(values, indent=1))


def learners_homes(folder):
    """Return {name: home} of the learners of the class in folder, the instructor left out."""
    members = accounts.members(settings_of(folder)["group"])
    return {name: user.pw_dir for name, user in members.items() if name != accounts.TEACHER}


def collect(homes, target, largest=LARGEST, room=ROOM, only=False):
    """Copy work/*.ipynb, attempts.jsonl and inventory.jsonl of each learner to target/NAME/.

    homes: {name: home}. largest, room: bytes of a file and of a learner's files; a sparse file counts as what it would
    become here. A copy that is there already and has the same size and time is left; times are kept. Nothing is removed
    there, unless only: then what was not copied now. Returns [(name, file, why it was not copied)].
    """
    left_out = []
    for name, home in homes.items():
        own = Path(target, name)
        own.mkdir(parents=True, exist_ok=True)
        try:
            work = os.open(os.path.join(home, "work"), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:  # nobody has logged in under this name yet
            continue
        except OSError as error:
            left_out.append((name, "work", error.strerror))
            continue
        left, kept, items = room, set(), sorted(filter(_is_work, os.listdir(work)))
        for item in items[:MOST]:
            try:
                left -= _copy(work, item, own, min(largest, left))
                kept.add(item)
            except OSError as error:
                left_out.append((name, item, error.strerror))
        os.close(work)
        if items[MOST:]:
            left_out.append((name, f"all after {items[MOST - 1]}", f"there are more than {MOST} files"))
        for copy in own.iterdir() if only else ():
            if copy.name not in kept:
                copy.unlink()
    return left_out


def _is_work(name):
    """Return whether a file of this name is collected. Bytes that are no text cannot be printed, and are not."""
    return name.isprintable() and (name.endswith(".ipynb") or name in LOGS)


def _copy(folder, name, target, largest):
    """Copy one plain file of an open folder into the folder target, in one step; OSError says why it cannot be.

    Returns its size, at most largest.
    """
    careful = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    with open(name, "rb", opener=lambda path, _: os.open(path, careful, dir_fd=folder)) as file:
        about, copy = os.fstat(file.fileno()), target / name
        same = copy.exists() and (copy.stat().st_size, copy.stat().st_mtime_ns) == (about.st_size, about.st_mtime_ns)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "not a plain file")
        if about.st_size > largest:
            raise OSError(0, f"larger than the {largest / 2**20:.1f} MB that are left for it")
        if not same:
            part = target / ".part"
            part.write_bytes(file.read(largest))
            os.utime(part, ns=(about.st_atime_ns, about.st_mtime_ns))
            part.replace(copy)
        return about.st_size
