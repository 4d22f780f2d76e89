"""Copy the learners' work, as root and without trusting what lies in their homes.

A learner could put a link to someone else's file, a pipe that never ends or a folder of a million files where a
notebook is expected. So nothing is followed, only plain files with the expected names and of a moderate size are
read, and what reads them afterwards need not be root.
"""

import contextlib
import json
import os
import stat
from pathlib import Path

from teaching.classroom import accounts

LARGEST = 32 << 20  # bytes of one file
MOST = 200  # files of one learner
LOGS = ("attempts.jsonl", "inventory.jsonl")
RECORD = ".collected.json"  # in the target: {name: [files]} that were copied there


def learners_homes(folder):
    """Return {name: home} of the learners of the class in folder, the instructor left out."""
    settings = json.loads((Path(folder) / "hub/settings.json").read_text())
    members = accounts.members(settings["group"])
    return {name: user.pw_dir for name, user in members.items() if name != settings["teacher"]}


def collect(homes, target):
    """Copy work/*.ipynb, attempts.jsonl and inventory.jsonl of each learner to target/NAME/.

    homes: {name: home}. A copy that is there already and has the same size and time is left; times are kept. A copy
    whose file the learner no longer has is removed; what was not copied by an earlier call stays, feedback for example.
    Returns [(name, file, why it was not copied)].
    """
    left_out = []
    record = Path(target) / RECORD
    try:
        copied = json.loads(record.read_text())
    except (OSError, ValueError):
        copied = {}
    for name, home in homes.items():
        own = Path(target) / name
        own.mkdir(parents=True, exist_ok=True)
        try:
            folder = os.open(os.path.join(home, "work"), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):  # nobody has logged in under this name yet
                left_out.append((name, "work", error.strerror))
            continue
        try:
            found = sorted(item for item in os.listdir(folder) if is_work(item))
            left_out += [(name, item, f"more than {MOST} files") for item in found[MOST:]]
            taken = set()
            for item in found[:MOST]:
                reason = _copy(folder, item, own / item)
                if reason:
                    left_out.append((name, item, reason))
                else:
                    taken.add(item)
            earlier = {item for item in copied.get(name, ()) if is_work(item)}
            for gone in earlier - set(found):
                (own / gone).unlink(missing_ok=True)
            copied[name] = sorted((earlier & set(found)) | taken)
        finally:
            os.close(folder)
    if homes:
        record.write_text(json.dumps(copied))
    return left_out


def is_work(item):
    """Return whether a file of this name is collected."""
    return "/" not in item and (item.endswith(".ipynb") or item in LOGS)


def _copy(folder, name, target):
    """Copy one file out of an open folder; return why it was not copied, or None."""
    try:
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        return error.strerror
    about = os.fstat(source)
    if not stat.S_ISREG(about.st_mode):
        os.close(source)
        return "not a plain file"
    with open(source, "rb") as file:
        if about.st_size > LARGEST:
            return f"larger than {LARGEST >> 20} MB"
        with contextlib.suppress(FileNotFoundError):
            there = target.stat()
            if (there.st_size, there.st_mtime_ns) == (about.st_size, about.st_mtime_ns):
                return None
        target.write_bytes(file.read(LARGEST))
    os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))
    return None
