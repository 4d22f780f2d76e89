"""How the hub of a class is run. Its settings come from settings.json in the folder it is started in, FOLDER/hub."""

import json
import os
import sys
from pathlib import Path

from firstuseauthenticator import FirstUseAuthenticator
from jupyterhub.spawner import LocalProcessSpawner
from traitlets.config import get_config

from teaching.classroom import accounts

HUB = Path.cwd()
FOLDER = HUB.parent
SETTINGS = json.loads((HUB / "settings.json").read_text())
HERE = Path(__file__).resolve().parent
os.umask(0o077)  # the database and the passwords are nobody else's
c = get_config()

# --- where it is reached
c.JupyterHub.bind_url = f"http{'s' if SETTINGS['cert'] else ''}://{SETTINGS['host']}:{SETTINGS['port']}"
c.JupyterHub.ssl_cert, c.JupyterHub.ssl_key = SETTINGS["cert"], SETTINGS["key"]
c.JupyterHub.hub_port = SETTINGS["hub_port"]
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{SETTINGS['proxy_port']}"
c.ConfigurableHTTPProxy.command = [str(FOLDER / "course/environment/node_modules/.bin/configurable-http-proxy")]
c.JupyterHub.cookie_secret_file = "cookie_secret"
c.JupyterHub.db_url = "sqlite:///hub.sqlite"


# --- who may come in
class ClassAuthenticator(FirstUseAuthenticator):
    """Opens the passwords only while --password does not. None of these waits for anything while it has them open."""

    async def authenticate(self, handler, data):
        with accounts.alone(self.dbm_path):
            return await super().authenticate(handler, data)

    def delete_user(self, user):
        with accounts.alone(self.dbm_path):
            return super().delete_user(user)

    def reset_password(self, username, new_password):
        with accounts.alone(self.dbm_path):
            return super().reset_password(username, new_password)


c.JupyterHub.authenticator_class = ClassAuthenticator
c.FirstUseAuthenticator.dbm_path = str(HUB / "passwords")
c.FirstUseAuthenticator.create_users = SETTINGS["open"]
c.FirstUseAuthenticator.min_password_length = 8
c.Authenticator.username_pattern = accounts.NAME
c.Authenticator.allow_all = SETTINGS["open"]
c.Authenticator.allowed_users = set(SETTINGS["learners"])
c.Authenticator.admin_users = {SETTINGS["teacher"]}


# --- what they get
class ClassSpawner(LocalProcessSpawner):
    """A server that runs as the learner's own Unix account, on the edition that is newest when it starts."""

    def start(self):
        """Make what the server needs, and start it. What runs in a terminal or a kernel finds the same edition."""
        self.edition = edition = (FOLDER / "course").resolve()
        self.account = accounts.ensure(SETTINGS["group"], self.user.name, SETTINGS["homes"])
        self.runtime = FOLDER / "run" / self.user.name  # not in the home: sockets must work on a full disk
        self.runtime.mkdir(mode=0o700, exist_ok=True)
        os.chown(self.runtime, self.account.pw_uid, self.account.pw_gid)
        self.cmd = [str(edition / "environment/bin/python"), str(edition / "learner/start.py")]
        self.args = [
            f"--LabApp.app_settings_dir={edition / 'lessons_src/lab_settings'}",
            "--LabApp.news_url=",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--ServerApp.jpserver_extensions={'jupyterlab_jupytext': False}",
            # Over TCP the ports that two kernels choose at the same moment can be the same one.
            "--KernelManager.transport=ipc",
            f"--MappingKernelManager.cull_idle_timeout={SETTINGS['idle'] * 60}",
            "--FileContentsManager.pre_save_hook=saving.keep_room",
        ]
        return super().start()

    def make_preexec_fn(self, name):
        return super().make_preexec_fn(self.account.pw_name)

    def user_env(self, env):
        return env | {
            "USER": self.account.pw_name,
            "LOGNAME": self.account.pw_name,
            "HOME": self.account.pw_dir,
            "SHELL": self.account.pw_shell,
            "PATH": f"{self.edition / 'environment/bin'}:{os.defpath}",
            "PYTHONPATH": f"{self.edition / 'lessons_src'}:{self.edition / 'learner'}",
            "PYTHONSTARTUP": str(self.edition / "learner/kernel.py"),
            "JUPYTER_RUNTIME_DIR": str(self.runtime),
            "LESSON_WORK": f"{self.account.pw_dir}/work",
            "CLASS_COURSE": str(FOLDER / "course"),
        }


c.JupyterHub.spawner_class = ClassSpawner
c.Spawner.notebook_dir = "~"
c.Spawner.default_url = "/lab/tree/work/01_why_normalize.ipynb"
c.Spawner.environment = {
    "OMP_NUM_THREADS": "1",
    "LESSON_THREADS": "1",
    "CLASS_MEMORY": str(int(SETTINGS["memory"] * 2**30)),
}
c.Spawner.env_keep = ["LANG", "LC_ALL"]  # nothing else of root's
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120
c.Spawner.poll_interval = 10  # seconds until a server that died can be started again
c.JupyterHub.concurrent_spawn_limit = 0  # a class comes in at one moment; the processor sets the pace
c.JupyterHub.cleanup_servers = True  # Ctrl-C ends the class. A hub that is killed leaves the servers running

# --- what runs beside it
# A hub that is killed takes them along: the page's port must be free when the hub comes back.
SERVICE = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m"]
c.JupyterHub.services = [
    {
        "name": "culler",
        "command": [
            *SERVICE,
            "jupyterhub_idle_culler",
            f"--timeout={SETTINGS['idle'] * 60:.0f}",
            f"--cull-every={max(1, min(60, SETTINGS['idle'] * 15)):.0f}",
        ],
    },
    {
        "name": "progress",
        "display": True,
        "url": f"http://127.0.0.1:{SETTINGS['page_port']}",
        "command": [*SERVICE, "teaching.classroom.progress_page"],
        "environment": {"PYTHONPATH": str(HERE.parents[1]), "CLASS_FOLDER": str(FOLDER)},
        "oauth_no_confirm": True,
    },
]
c.JupyterHub.load_roles = [
    {
        "name": "culler",
        "services": ["culler"],
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
    }
]
if SETTINGS["load_token"]:  # only in a class that load.py starts for a test
    c.JupyterHub.services.append({"name": "load", "api_token": SETTINGS["load_token"]})
    c.JupyterHub.load_roles.append(
        {"name": "load", "services": ["load"], "scopes": ["admin:users", "admin:servers", "access:servers", "tokens"]}
    )
