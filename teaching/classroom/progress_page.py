"""The instructor's page, a service of the hub: the progress of the class, from the notebooks as they were last saved.

Whoever may administer the hub sees it at /services/progress/. It is made anew when it is asked for and older than
REFRESH seconds. It must read homes that only their owners read, so it runs as root and copies (collect.py); what
interprets the copies runs as nobody.
"""

import asyncio
import html
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
    "<body><p>Nobody of the class has logged in yet.</p></body></html>"
)
FOLDER = Path(os.environ.get("CLASS_FOLDER", "."))


def make_page(folder=FOLDER):
    """Return (command that writes the page, the page's path, what could not be read), the copies being up to date."""
    copies = folder / "progress"
    copies.mkdir(mode=0o700, exist_ok=True)
    homes = collect.learners_homes(folder)
    left_out = collect.collect(homes, copies)
    for gone in {path.name for path in copies.iterdir() if path.is_dir()} - set(homes):
        shutil.rmtree(copies / gone)
    nobody = pwd.getpwnam("nobody")
    for path in [copies, *copies.rglob("*")]:
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    page = copies / "class.html"
    command = [sys.executable, "-m", "lessonkit.progress", "--html", str(page), *(str(copies / name) for name in homes)]
    return command, page, left_out


class Page(HubOAuthenticated, RequestHandler):
    """The page, if the hub says that this user may see it."""

    made, text, lock = 0.0, "", asyncio.Lock()

    @authenticated
    async def get(self):
        async with Page.lock:
            if time.monotonic() - Page.made > REFRESH or not Page.text:
                Page.text = await self.fresh()
                Page.made = time.monotonic()
        self.finish(Page.text)

    async def fresh(self):
        if not collect.learners_homes(FOLDER):
            return NOBODY
        loop = asyncio.get_running_loop()
        command, page, left_out = await loop.run_in_executor(None, make_page)
        environment = {"PATH": os.defpath, "PYTHONPATH": str(FOLDER / "course/lessons_src"), "HOME": "/"}
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, cwd="/", user="nobody", group="nogroup", extra_groups=[], stderr=-1, stdout=-1
        )
        try:
            _, said = await asyncio.wait_for(process.communicate(), 60)
        except TimeoutError:
            process.kill()
            raise HTTPError(500, "The page took longer than a minute") from None
        if process.returncode:
            raise HTTPError(500, f"lessonkit.progress failed: {said.decode()[-500:]}")
        notes = "".join(f"<p>{html.escape(f'{name}: {item} was not read: {why}.')}</p>" for name, item, why in left_out)
        return page.read_text(encoding="utf-8").replace("</body>", f"{notes}</body>", 1)


def main():
    prefix, address = os.environ["JUPYTERHUB_SERVICE_PREFIX"], urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
    pages = [(prefix, Page), (f"{prefix}oauth_callback", HubOAuthCallbackHandler)]
    Application(pages, cookie_secret=os.urandom(32)).listen(address.port, address.hostname)


if __name__ == "__main__":

    async def forever():
        main()
        await asyncio.Event().wait()

    asyncio.run(forever())
