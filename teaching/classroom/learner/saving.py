"""Before a file is saved: is there room for it? The server's way of saving can lose a file on a full disk.

It copies the old file aside, empties it, and writes the new one. If that fails, the next try, fifteen seconds later,
copies the damaged file over the copy. So a save begins only when there is room for both.
"""

import contextlib
import errno
import json
import os
import tempfile

from tornado.web import HTTPError

REST = 1 << 16  # bytes for the file system's own records


def keep_room(model, path, contents_manager, **_):
    """Refuse to save (status 507) where the disk, or the learner's share of it, has no room for copy and new file."""
    target = contents_manager._get_os_path(path)
    content = model.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content, indent=1, ensure_ascii=False)
    needed = len(text.encode()) + REST
    with contextlib.suppress(OSError):
        needed += os.path.getsize(target)
    try:
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(target), prefix=".room") as file:
            os.posix_fallocate(file.fileno(), 0, needed)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HTTPError(
                507,
                f"Your disk is full: saving {path} needs {needed / 2**20:.1f} MB. The file is as it was when it was "
                "last saved, and what you see is in this tab only, so keep the tab open, delete something, and save.",
            ) from None
