"""Write a file whole or not at all."""

import os


class Unwritable(Exception):
    """A file that cannot be written: which one, and why."""


def write_whole(path, text):
    """Write text to a path, or leave the old file as it was: a browser may load it at any moment."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8", newline="")
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise Unwritable(f"{path} cannot be written ({error.strerror}). Name a file in a folder of your own.") from None
