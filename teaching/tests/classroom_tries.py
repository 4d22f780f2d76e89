"""Run in a learner's kernel by test_classroom.py: what a learner could try on another's things and on the class's."""

import glob
import os
import signal
import urllib.error
import urllib.request


def call(address, method="GET"):
    headers = {"Authorization": "token " + os.environ["JUPYTERHUB_API_TOKEN"]}
    urllib.request.urlopen(urllib.request.Request(address, method=method, headers=headers), timeout=20).read()


def outcomes(acts):
    """Return {what: "done" or "refused", or what else happened} of {what: act}."""
    results = {}
    for what, act in acts.items():
        try:
            act()
            results[what] = "done"
        except PermissionError:
            results[what] = "refused"
        except urllib.error.HTTPError as error:
            results[what] = "refused" if error.code == 403 else f"status {error.code}"
    return results


def on_a_learner(home, server, pid, name, folder):
    """Try it all on a learner's things; return the outcomes.

    home: the learner's; server: its address behind the proxy; pid: the server's; name: the hub's; folder: the class's.
    """
    lesson, run = f"{home}/work/02_statistics.ipynb", f"{folder}/run/{name}"
    return outcomes(
        {
            "list the home": lambda: os.listdir(home),
            "read a lesson": lambda: open(lesson).read(),
            "write a lesson": lambda: open(lesson, "a").close(),
            "make a file": lambda: (open(f"{home}/made", "w").close(), os.remove(f"{home}/made")),
            "enter by a link": lambda: os.listdir(f"{folder}/homes/../homes/{os.path.basename(home)}/work"),
            "the server's environment": lambda: open(f"/proc/{pid}/environ", "rb").read(),
            "a signal to the server": lambda: os.kill(pid, signal.SIGCONT),
            "the kernels' sockets": lambda: open(glob.glob(f"{run}/kernel-*.json")[0]) if os.listdir(run) else None,
            "the server, past the proxy": lambda: call(f"{server}api/contents/work"),
            "the server's kernels": lambda: call(f"{server}api/kernels"),
        }
    )


def on_the_class(folder, proxy):
    """Try it all on what is the class's; return the outcomes. proxy: the port at which the proxy is told its routes."""
    course, hub, edition = f"{folder}/course", f"{folder}/hub", os.path.realpath(f"{folder}/course")
    files = [f"{course}/notebooks/02_statistics.ipynb", f"{course}/lessons_src/lessonkit/check/__init__.py"]
    files += [f"{edition}/environment/bin/python", f"{edition}/learner/prepare_home.py"]
    secrets = [f"{hub}/{name}" for name in "hub.sqlite cookie_secret passwords.db passwords.csv settings.json".split()]
    acts = {f"write {path}": lambda path=path: open(path, "a") for path in files}
    acts |= {f"read {path}": lambda path=path: open(path, "rb").read() for path in secrets}
    return outcomes(
        acts
        | {
            "list the hub": lambda: os.listdir(hub),
            "add to the course": lambda: open(f"{edition}/x", "w"),
            "turn the course": lambda: os.rename(course, f"{course}2"),
            "the list of users": lambda: call(os.environ["JUPYTERHUB_API_URL"] + "/users"),
            "the proxy's routes": lambda: call(f"http://127.0.0.1:{proxy}/api/routes"),
        }
    )
