"""Logging in with the passwords of the class, and the page on which a learner changes one."""

import asyncio
import math
import time
from pathlib import Path

from jupyterhub.auth import Authenticator
from jupyterhub.handlers import BaseHandler
from tornado.web import HTTPError, authenticated
from traitlets import Unicode

from teaching.classroom import passwords

SHORTEST = 8  # letters of a password that somebody chooses
LONGEST = 30  # seconds to wait after wrong passwords
MOST = 20  # wrong passwords of a name a minute, from all addresses where it has not been before


class ClassAuthenticator(Authenticator):
    """Lets in who has a password, and in an open class a new name with the password that it comes with.

    After a wrong password a name waits at the address that it came from: 1 s, then 2, 4, ... up to LONGEST. A program
    on this machine can come from as many addresses as it likes, so that there is a limit for all of them, too.
    """

    folder = Unicode(help="where the passwords are kept", config=True)

    def __init__(self, **options):
        super().__init__(**options)
        self.wrong = {}  # {(name, address): (how many in a row, when the last)}
        self.known = set()  # (name, address): nobody else's guesses keep a name out where it has logged in
        self.guesses = {}  # {name: when the last minute's wrong passwords came from other addresses}

    async def authenticate(self, handler, data):
        name, password = self.normalize_username(data["username"]), data["password"]
        if not self.validate_username(name) or not self.check_allowed(name):
            return None
        if not Path(self.folder, name).exists():  # in an open class: who is on a list has a password
            await self.keep(name, password)
            return name
        # The last address is what the class's own proxy saw; those before it are what it was told.
        address = handler.request.headers.get("X-Forwarded-For", handler.request.remote_ip).split(",")[-1].strip()
        now, known = time.monotonic(), (name, address) in self.known
        count, last = self.wrong.get((name, address), (0, 0))
        wait = last + min(2**count / 2, LONGEST) - now
        guesses = self.guesses[name] = [when for when in self.guesses.get(name, ()) if now - when < 60]
        if not known and len(guesses) >= MOST:
            wait = max(wait, guesses[0] + 60 - now)
        if wait > 0:
            raise HTTPError(403, f"{name} was tried with a wrong password. Wait {math.ceil(wait)} s before the next.")
        self.wrong[name, address] = count + 1, now  # beforehand, or many could be tried at once
        guesses += [] if known else [now]
        if await asyncio.to_thread(passwords.is_right, Path(self.folder), name, password):
            self.wrong.pop((name, address), None)
            self.known.add((name, address))
            self.guesses[name] = [when for when in self.guesses[name] if when != now]
            return name
        return None

    async def keep(self, name, password):
        """Make this the password of a name; HTTPError for one that is too short."""
        if len(password) < SHORTEST:
            raise HTTPError(403, f"A password has at least {SHORTEST} letters.")
        await asyncio.to_thread(passwords.keep, Path(self.folder), name, password)

    def get_handlers(self, app):
        return [*super().get_handlers(app), ("/auth/change-password", ChangePassword)]


class ChangePassword(BaseHandler):
    """The page on which a learner chooses a password."""

    @authenticated
    async def get(self):
        self.finish(await self.render_template("change_password.html"))

    @authenticated
    async def post(self):
        """Ask for the present one too: a learner's page may have sent this form for its visitor."""
        message, name = "Your password is changed.", self.current_user.name
        old, new = (self.get_body_argument(field, strip=False) for field in ("old", "password"))
        try:
            if not await self.authenticator.authenticate(self, {"username": name, "password": old}):
                raise HTTPError(403, "That is not your present password.")
            await self.authenticator.keep(name, new)
        except HTTPError as error:
            message = error.log_message
        self.finish(await self.render_template("change_password.html", message=message))
