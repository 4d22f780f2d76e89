"""Logging in: passwords compared and made in threads, so that whoever guesses many keeps nobody else waiting."""

import asyncio
import os
import random
import weakref
from pathlib import Path

import firstuseauthenticator
from jupyterhub.handlers import BaseHandler, LoginHandler
from tornado.web import HTTPError, authenticated

from teaching.classroom import passwords

TEMPLATES = Path(firstuseauthenticator.__file__).parent / "templates"
LONGEST = 72  # bytes that bcrypt takes
SPREAD = 2  # seconds over which the answers to wrong passwords are spread, as each is a page that the hub makes


class ClassAuthenticator(firstuseauthenticator.FirstUseAuthenticator):
    """Keeps passwords as FirstUseAuthenticator does, which would compare and make them on the hub's loop."""

    def __init__(self, **options):
        super().__init__(**options)
        self.pauses = passwords.Pauses()
        self.turns = passwords.Turns(max(1, os.cpu_count() - 1))  # one processor is for the hub's pages
        self.locks = weakref.WeakValueDictionary()  # of one name at one address, one password at a time is looked at

    async def authenticate(self, handler, data):
        """Return the name if the password is its own; in an open class a new name gets the password it comes with."""
        name, password = self.normalize_username(data["username"]), data["password"]
        # The last address is what the class's own proxy saw; those before it are what it was told.
        address = handler.request.headers.get("X-Forwarded-For", handler.request.remote_ip).split(",")[-1].strip()
        wait = 0
        if self.validate_username(name) and (self.create_users or self._user_exists(name)):
            tries = self.pauses.wrong.get((name, address), (0,))[0]
            async with self.locks.setdefault((name, address), asyncio.Lock()), self.turns.turn(tries):
                wait = self.pauses.left(name, address)
                if not wait and await self.is_right(name, password, address):
                    return name
        await asyncio.sleep(random.uniform(0, SPREAD))
        if wait:
            raise HTTPError(403, f"That password was wrong. Wait {wait:.0f} s before you try {name} again.")
        return None

    async def is_right(self, name, password, address):
        with passwords.opened(self.dbm_path) as hashes:
            kept = hashes.get(name.encode())
        if kept is None:
            await self.keep(name, password)
            return True
        right = await asyncio.to_thread(passwords.matches, password, kept)
        self.pauses.note(name, address, right)
        return right

    async def keep(self, name, password):
        """Make this the password of a name; HTTPError for one that is too short or too long."""
        if not self._validate_password(password) or len(password.encode()) > LONGEST or "\0" in password:
            raise HTTPError(403, f"A password has at least {self.min_password_length} letters and at most {LONGEST}.")
        kept = await asyncio.to_thread(passwords.hashed, password)
        with passwords.opened(self.dbm_path) as hashes:
            hashes[name] = kept

    def delete_user(self, user):
        """Forget the password of a name that the hub's admin page has deleted."""
        with passwords.opened(self.dbm_path) as hashes:
            if user.name.encode() in hashes:
                del hashes[user.name]

    def get_handlers(self, app):
        return [("/login", LoginHandler), ("/auth/change-password", ChangePassword)]


class ChangePassword(BaseHandler):
    """The page on which a learner chooses a password."""

    @authenticated
    async def get(self):
        self.finish(await self.render_template("reset.html"))

    @authenticated
    async def post(self):
        outcome = {"alert": "success", "result_message": "Your password is changed."}
        try:
            await self.authenticator.keep(self.current_user.name, self.get_body_argument("password", strip=False))
        except HTTPError as error:
            outcome = {"alert": "danger", "result_message": error.log_message}
        self.finish(await self.render_template("reset.html", result=True, **outcome))
