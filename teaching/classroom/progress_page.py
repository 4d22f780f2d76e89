"""The instructor's page, a service of the hub: the progress of the class, from the notebooks as they were last saved.

Whoever may administer the hub sees it at /services/progress/, one lesson of it at /services/progress/?lesson=2. It is
made anew when it is asked for and older than REFRESH seconds. It must read homes that only their owners read, so it
runs as root and copies (collect.py); what interprets the copies runs as nobody (class_page.py).
"""

import asyncio
import contextlib
import html
import json
import os
import pwd
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import urlparse

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from tornado.web import Application, HTTPError, RequestHandler, authenticated

from teaching.classroom import collect

REFRESH = 15  # seconds
NOBODY = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="15"><title>Class</title>'
    "<body><p>Nobody of the class has logged in yet.</p>{}</body></html>"
)
FOLDER = Path(os.environ.get("CLASS_FOLDER", "."))


def make_page(lesson, folder=FOLDER):
    """Return (command that prints the page, what could not be read), the copies being up to date."""
    copies = folder / "progress"
    copies.mkdir(mode=0o700, exist_ok=True)
    homes = collect.learners_homes(folder)
    left_out = collect.collect(homes, copies)
    for gone in {path.name for path in copies.iterdir() if path.is_dir()} - set(homes):
        shutil.rmtree(copies / gone)
    nobody = pwd.getpwnam("nobody")
    for path in [copies, *copies.rglob("*")]:
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    program = Path(__file__).with_name("class_page.py").read_text(encoding="utf-8")
    folders = [str(copies / name) for name in homes]
    return [sys.executable, "-c", program, lesson, ",".join(not_yet_here(homes, folder)), *folders], left_out


def not_yet_here(homes, folder=FOLDER):
    """Return the names on the class's list that have no home yet, because they never started a server."""
    return [name for name in json.loads((folder / "hub/settings.json").read_text())["learners"] if name not in homes]


class Page(HubOAuthenticated, RequestHandler):
    """The page, if the hub says that this user may see it."""

    made, lock = {}, asyncio.Lock()  # made: {lesson: (when, text)}

    @authenticated
    async def get(self):
        asked = self.get_query_argument("lesson", "").strip()
        lesson = asked.zfill(2) if asked else ""
        if lesson and lesson not in {path.name[:2] for path in (FOLDER / "course/notebooks").glob("*.ipynb")}:
            self.set_status(404)
            self.finish(f"<p>The course has no lesson {html.escape(asked)}. The address ends like ?lesson=2.</p>")
            return
        async with Page.lock:
            when, text = Page.made.get(lesson, (0.0, ""))
            if time.monotonic() - when > REFRESH or not text:
                text = await self.fresh(lesson)
                Page.made[lesson] = (time.monotonic(), text)
        self.finish(text)

    async def fresh(self, lesson):
        homes = collect.learners_homes(FOLDER)
        if not homes:
            names = ", ".join(not_yet_here(homes))
            return NOBODY.format(f"<p>Expected are {names}.</p>" if names else "")
        loop = asyncio.get_running_loop()
        command, left_out = await loop.run_in_executor(None, make_page, lesson)
        environment = {"PATH": os.defpath, "PYTHONPATH": str(FOLDER / "course/lessons_src"), "HOME": "/"}
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, cwd="/", user="nobody", group="nogroup", extra_groups=[], stderr=-1, stdout=-1
        )
        try:
            text, said = await asyncio.wait_for(process.communicate(), 60)
        except TimeoutError:
            process.kill()
            raise HTTPError(500, "The page took longer than a minute") from None
        if process.returncode:
            raise HTTPError(500, f"class_page.py failed: {said.decode()[-500:]}")
        notes = "".join(f"<p>{html.escape(f'{name}: {item} was not read: {why}.')}</p>" for name, item, why in left_out)
        return text.decode().replace("</body>", f"{notes}</body>", 1)


def main():
    prefix, address = os.environ["JUPYTERHUB_SERVICE_PREFIX"], urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
    pages = [(prefix, Page), (f"{prefix}oauth_callback", HubOAuthCallbackHandler)]
    Application(pages, cookie_secret=os.urandom(32)).listen(address.port, address.hostname)


if __name__ == "__main__":

    async def forever():
        main()
        await asyncio.Event().wait()

    with contextlib.suppress(KeyboardInterrupt):  # SIGINT is how the hub ends it
        asyncio.run(forever())
