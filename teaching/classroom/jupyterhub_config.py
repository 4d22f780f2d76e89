"""How the hub of a class is run. Its settings come from settings.json in the folder it is started in, FOLDER/hub."""

import functools
import json
import os
import resource
import sys
from pathlib import Path

from tornado.httpserver import HTTPServer
from traitlets.config import get_config

from teaching.classroom import accounts, logins, servers

HUB = Path.cwd()
FOLDER = HUB.parent
SETTINGS = json.loads((HUB / "settings.json").read_text())
HERE = Path(__file__).resolve().parent
os.umask(0o077)  # the database and the passwords are nobody else's
c = get_config()

# --- where it is reached
ADDRESS = f"http{'s' if SETTINGS['cert'] else ''}://{{}}:{SETTINGS['port']}"
c.JupyterHub.bind_url = ADDRESS.format(SETTINGS["host"])
c.JupyterHub.subdomain_host = SETTINGS["domain"] and ADDRESS.format(SETTINGS["domain"])
# A learner's page can set cookies for the whole domain; a browser takes none with this prefix from it.
c.JupyterHub.cookie_host_prefix_enabled = bool(SETTINGS["domain"] and SETTINGS["cert"])
c.JupyterHub.ssl_cert, c.JupyterHub.ssl_key = SETTINGS["cert"], SETTINGS["key"]
# Who is not logged in can send the hub something, too, which it holds in memory, and can keep its connections open.
# Saves do not go through it.
LIMITS = {"max_body_size": 1 << 20, "idle_connection_timeout": 60, "body_timeout": 60}  # bytes, seconds
HTTPServer.initialize = functools.partialmethod(HTTPServer.initialize, **LIMITS)
MOST_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # a thousand connections would stop a hub with 1,024
resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES))
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


# --- what they get
c.JupyterHub.spawner_class = servers.ClassSpawner
c.ClassSpawner.folder, c.ClassSpawner.settings = str(FOLDER), SETTINGS
c.Spawner.notebook_dir = "~"
c.Spawner.default_url = "/lab"  # servers.py names the lesson to open
c.Spawner.env_keep = ["LANG", "LC_ALL"]  # nothing else of root's
c.ClassSpawner.interrupt_timeout = 0  # a server that is interrupted asks at its terminal whether to end, and has none
c.Spawner.start_timeout = 240  # until it listens
c.Spawner.http_timeout = 120
c.Spawner.poll_interval = 1  # seconds until the proxy sends nothing more to the port of a server that died
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
# Nobody gets JupyterHub's "self" or "admin": they hold "tokens", with which a learner's page could, where all share one
# address, make a token that acts for good as whoever opens it. There the instructor administers nothing, either.
OWN = ["read:users", "users:activity", "servers", "access:servers"]  # a server reports activity, or it would be culled
ADMINISTER = ["admin-ui", "list:users", "servers", "access:servers"] if SETTINGS["domain"] else []
c.JupyterHub.load_roles = [
    {"name": "user", "scopes": [f"{scope}!user" for scope in OWN]},
    {"name": "teacher", "users": [accounts.TEACHER], "scopes": ["access:services!service=progress", *ADMINISTER]},
    {
        "name": "culler",
        "services": ["culler"],
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
    },
]
if SETTINGS["trial_token"]:  # only in a class that trial.py starts
    c.JupyterHub.services.append({"name": "trial", "api_token": SETTINGS["trial_token"]})
    c.JupyterHub.load_roles.append(
        {"name": "trial", "services": ["trial"], "scopes": ["admin:users", "admin:servers", "access:servers"]}
    )
