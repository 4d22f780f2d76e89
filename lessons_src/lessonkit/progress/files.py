"""Find the folders of a class, and write a file whole or not at all."""

import contextlib
import os
import sys


class Unwritable(Exception):
    """A file that cannot be written: which one, and why."""


def spread(folders, *logs):
    """Return (folders, with the learners' folders in place of one that only holds them; a sentence for each such one).

    A learner's folder holds notebooks or one of the logs (names of files), itself or in its folder work. A folder that
    neither is one nor holds one stays, and gets a sentence too.
    """
    paths, notes = [], []
    for folder in folders:
        if not folder.is_dir() or _is_learners(folder, logs):
            paths.append(folder)
            continue
        places = [place for inner in _folders_in(folder) for place in (inner, inner / "work")]
        inside = [place for place in places if _is_learners(place, logs)]
        paths += inside or [folder]
        if inside:
            names = ", ".join(str(place.relative_to(folder)) for place in inside)
            notes.append(f"{folder} holds no notebooks itself, so the folders in it that do are read: {names[:300]}.")
        else:
            notes.append(f"{folder} holds no notebooks, and no folder that does. Name the folders of the learners.")
    return paths, notes


def tell(notes):
    """Print sentences to stderr, a line each."""
    for note in notes:
        print(note, file=sys.stderr)


def _folders_in(folder):
    with contextlib.suppress(OSError):
        inner = [path for path in folder.iterdir() if path.is_dir() and path.name[0] not in "._"]
        return sorted(path for path in inner if path.name != "solutions")  # make lab puts it into an empty work/ too
    return []


def _is_learners(folder, logs):
    with contextlib.suppress(OSError):
        return any(path.name in logs or path.match("[!.]*.ipynb") for path in folder.iterdir())
    return False


@contextlib.contextmanager
def for_a_pipe():
    """Let a command end quietly when what reads its output (head, less) has had enough."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's own flush at its end


def write_whole(path, text):
    """Write text to a path, or leave the old file as it was: a browser may load it at any moment."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8", newline="")
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise Unwritable(f"{path} cannot be written ({error.strerror}). Name a file in a folder of your own.") from None
