"""How the hub of a class is run. Its settings come from settings.json in the folder it is started in, FOLDER/hub."""

import json
import os
import sys
from pathlib import Path

from traitlets.config import get_config

from teaching.classroom import accounts, logins, servers

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
# What runs beside the hub ends with it, also when it is killed: its ports must be free when the class goes on.
WITH_THE_HUB = ["setpriv", "--pdeathsig", "TERM"]
PROXY = FOLDER / "course/environment/node_modules/.bin/configurable-http-proxy"
c.ConfigurableHTTPProxy.command = [*WITH_THE_HUB, str(PROXY)]


# --- who may come in
c.JupyterHub.authenticator_class = logins.ClassAuthenticator
c.JupyterHub.template_paths = [str(HERE / "templates")]
c.ClassAuthenticator.folder = str(HUB / "secrets")
c.Authenticator.username_pattern = accounts.NAME
c.Authenticator.allow_all = SETTINGS["open"]
c.Authenticator.allowed_users = {accounts.TEACHER, *SETTINGS["learners"]}
c.Authenticator.admin_users = {accounts.TEACHER}


# --- what they get
c.JupyterHub.spawner_class = servers.ClassSpawner
c.ClassSpawner.folder, c.ClassSpawner.settings = str(FOLDER), SETTINGS
c.Spawner.notebook_dir = "~"
c.Spawner.default_url = "/lab"  # servers.py names the lesson to open
c.Spawner.env_keep = ["LANG", "LC_ALL"]  # nothing else of root's
c.ClassSpawner.interrupt_timeout = 0  # a server that is interrupted asks at its terminal whether to end, and has none
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120
c.Spawner.poll_interval = 10  # seconds until a server that died can be started again
c.JupyterHub.concurrent_spawn_limit = 0  # a class comes in at one moment; the processor sets the pace

# --- what runs beside it
SERVICE = [*WITH_THE_HUB, sys.executable, "-m"]
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
if SETTINGS["trial_token"]:  # only in a class that trial.py starts
    c.JupyterHub.services.append({"name": "trial", "api_token": SETTINGS["trial_token"]})
    c.JupyterHub.load_roles.append(
        {"name": "trial", "services": ["trial"], "scopes": ["admin:users", "admin:servers", "access:servers", "tokens"]}
    )
