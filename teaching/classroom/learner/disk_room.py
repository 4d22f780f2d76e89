"""Refuse to save where the disk has no room for it.

The server copies the old file aside, empties it, and writes the new one. On a full disk this fails, and the next try
copies the damaged file over the copy. So a save begins only when there is room for both.
"""

import contextlib
import errno
import json
import os
import tempfile

REST = 1 << 16  # bytes for the file system's own records


def is_lacking(folder, size):
    """Return whether the disk of a folder, or the learner's share of it, has no room for size bytes."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".room") as file:
            os.posix_fallocate(file.fileno(), 0, size + REST)
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return False


def keep_room(model, path, contents_manager, **_):
    """Refuse to save (status 507) where there is no room for the old file and the new one."""
    from tornado.web import HTTPError

    target = contents_manager._get_os_path(path)
    content = model.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content, indent=1, ensure_ascii=False)
    size = len(text.encode())
    with contextlib.suppress(OSError):
        size += os.path.getsize(target)
    if is_lacking(os.path.dirname(target), size):
        raise HTTPError(
            507,
            f"Your disk is full: saving {path} needs {size / 2**20:.1f} MB. The file is as it was when it was last "
            "saved, and what you see is in this tab only, so keep the tab open, delete something, and save.",
        )
