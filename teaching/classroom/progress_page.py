"""The instructor's page, a service of the hub: the progress of the class, from the notebooks as they were last saved.

The instructor alone sees it at /services/progress/, one lesson of it at /services/progress/?lesson=2. It is
made anew when it is asked for and older than REFRESH seconds. It must read homes that only their owners read, so it
runs as root and copies (collect.py); what interprets the copies runs as an account of its own, which can change
nothing, not even the copies (progress_reader.py).
"""

import asyncio
import contextlib
import html
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlparse

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from tornado.web import Application, HTTPError, RequestHandler, authenticated

from teaching.classroom import accounts, collect

REFRESH = 15  # seconds
LARGEST_REQUEST, PATIENCE = 1 << 16, 60  # bytes and seconds: anybody may send one
LARGEST, ROOM = 8 << 20, 12 << 20  # bytes of a file and of a learner's: all lessons with their figures have 3 MB
FOLDER = Path(os.environ.get("CLASS_FOLDER", "."))


def make_page(lesson):
    """Bring the copies up to date; return the page, HTML.

    The copies are root's: their reader is in the group that may read them, and can put nothing in their place.
    """
    copies, homes, settings = FOLDER / "progress", collect.learners_homes(FOLDER), collect.settings_of(FOLDER)
    reader = accounts.ensure_reader(settings["group"])
    copies.mkdir(mode=0o700, exist_ok=True)
    os.chown(copies, 0, reader.pw_gid)
    copies.chmod(0o2750)  # what is made in it is of its group as well
    left_out = collect.collect(homes, copies, LARGEST, ROOM, only=True)
    program = Path(__file__).with_name("progress_reader.py").read_text(encoding="utf-8")
    missing = [name for name in settings["learners"] if name not in homes]  # they never started a server
    command = [sys.executable, "-c", program, lesson, ",".join(missing), *(str(copies / name) for name in homes)]
    environment = {"PATH": os.defpath, "PYTHONPATH": str(FOLDER / "course/lessons_src"), "HOME": "/"}
    run = {"env": environment, "cwd": "/", "check": True, "timeout": 60} | accounts.as_user(reader)
    page = subprocess.run(command, stdout=subprocess.PIPE, **run).stdout.decode()  # its errors are in the hub's log
    notes = "".join(f"<p>{html.escape(f'{name}: {item} was not read: {why}.')}</p>" for name, item, why in left_out)
    notes += "" if settings["domain"] else f"<p>{accounts.NO_DOMAIN}</p>"
    return page.replace("</body>", f"{notes}</body>", 1)


class Page(HubOAuthenticated, RequestHandler):
    """The page, if the hub says that this user may see it."""

    latest, lock = {}, asyncio.Lock()  # latest: {lesson: (when, text)}

    @authenticated
    async def get(self):
        asked = self.get_query_argument("lesson", "").strip()
        lesson = asked.zfill(2) if asked else ""
        if lesson and lesson not in {path.name[:2] for path in (FOLDER / "course/notebooks").glob("*.ipynb")}:
            raise HTTPError(404)
        async with Page.lock:
            when, text = Page.latest.get(lesson, (0.0, ""))
            if time.monotonic() - when > REFRESH or not text:
                text = await asyncio.to_thread(make_page, lesson)
                Page.latest[lesson] = (time.monotonic(), text)
        self.finish(text)


async def main():
    os.umask(0o027)  # the copies are read by their group
    prefix, address = os.environ["JUPYTERHUB_SERVICE_PREFIX"], urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
    pages = [(prefix, Page), (f"{prefix}oauth_callback", HubOAuthCallbackHandler)]
    Application(pages, cookie_secret=os.urandom(32)).listen(
        address.port,
        address.hostname,
        max_body_size=LARGEST_REQUEST,
        body_timeout=PATIENCE,
        idle_connection_timeout=PATIENCE,
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):  # SIGINT is how the hub ends it
        asyncio.run(main())
