"""Copy the learners' work, as root and without trusting what lies in their homes.

A learner could put a link to someone else's file, a pipe that never ends or a folder of a million files where a
notebook is expected. So no link is followed, neither there nor in the folder of the copies, only plain files with the
expected names and of a moderate size are read, and what reads them afterwards need not be root.
"""

import contextlib
import errno
import json
import os
import stat
from pathlib import Path

from teaching.classroom import accounts

LARGEST = 32 << 20  # bytes of one file
MOST = 200  # files of one learner
LOGS = ("attempts.jsonl", "inventory.jsonl")
PART = ".part"  # a copy until it is whole


def settings_of(folder):
    """Return what the class in folder is run with."""
    return json.loads((folder / "hub/settings.json").read_text())


def learners_homes(folder):
    """Return {name: home} of the learners of the class in folder, the instructor left out."""
    settings = settings_of(folder)
    members = accounts.members(settings["group"])
    return {name: user.pw_dir for name, user in members.items() if name != settings["teacher"]}


def open_folder(path, inside=None):
    """Return a folder, opened; OSError if it is a link. inside: the open folder that path begins in."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=inside)


def collect(homes, target):
    """Copy work/*.ipynb, attempts.jsonl and inventory.jsonl of each learner to target/NAME/.

    homes: {name: home}. A copy that is there already and has the same size and time is left; times are kept. Nothing is
    removed there. Returns [(name, file, why it was not copied)].
    """
    Path(target).mkdir(parents=True, exist_ok=True)
    left_out, copies = [], os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name, home in homes.items():
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=copies)
                own = open_folder(name, copies)
            except OSError as error:
                left_out.append((name, "the folder of the copies", error.strerror))
                continue
            try:
                left_out += [(name, *reason) for reason in _collect_one(home, own)]
            finally:
                os.close(own)
    finally:
        os.close(copies)
    return left_out


def _collect_one(home, own):
    """Copy a learner's work into the open folder own; return [(file, why it was not copied)]."""
    try:
        work = open_folder(os.path.join(home, "work"))
    except FileNotFoundError:  # nobody has logged in under this name yet
        return []
    except OSError as error:
        return [("work", error.strerror)]
    try:
        names = sorted(filter(is_work, os.listdir(work)))
        reasons = [(name, reason) for name in names[:MOST] if (reason := _copy(work, name, own))]
    finally:
        os.close(work)
    return reasons + [(f"{len(names) - MOST} more files", f"more than {MOST} files")] * (len(names) > MOST)


def is_work(name):
    """Return whether a file of this name is collected. Bytes that are no text cannot be printed, and are not."""
    return name.isprintable() and "/" not in name and (name.endswith(".ipynb") or name in LOGS)


def _open_file(folder, name):
    """Return a plain file of an open folder, opened to read bytes; OSError if it is anything else."""
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return open(file, "rb")
    os.close(file)
    raise OSError(errno.EINVAL, "not a plain file")


def _copy(folder, name, target):
    """Copy one file from one open folder to another; return why it was not copied, or None."""
    try:
        with _open_file(folder, name) as file:
            about = os.fstat(file.fileno())
            if about.st_size > LARGEST:
                return f"larger than {LARGEST >> 20} MB"
            with contextlib.suppress(FileNotFoundError):
                there = os.stat(name, dir_fd=target, follow_symlinks=False)
                if (there.st_size, there.st_mtime_ns) == (about.st_size, about.st_mtime_ns):
                    return None
            _write(target, name, file.read(LARGEST), (about.st_atime_ns, about.st_mtime_ns))
    except OSError as error:
        return error.strerror
    return None


def _write(folder, name, data, times):
    """Put a file into an open folder in one step: what lies under its name there is replaced, not written through."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(PART, dir_fd=folder)
    with open(os.open(PART, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder), "wb") as file:
        file.write(data)
    os.utime(PART, ns=times, dir_fd=folder, follow_symlinks=False)
    os.replace(PART, name, src_dir_fd=folder, dst_dir_fd=folder)
