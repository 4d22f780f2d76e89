"""Run in a learner's kernel by test_classroom.py: what a learner could try on another's files, server and kernels."""

import glob
import os
import signal
import urllib.error
import urllib.request


def tries(home, server, pid, name, folder):
    """Try it all on a learner's things; return {what: "done" or "refused", or what else happened}.

    home: the learner's; server: its address behind the proxy; pid: the server's; name: the hub's; folder: the class's.
    """

    def call(address, method="GET"):
        headers = {"Authorization": "token " + os.environ["JUPYTERHUB_API_TOKEN"]}
        urllib.request.urlopen(urllib.request.Request(address, method=method, headers=headers), timeout=20).read()

    lesson, run = f"{home}/work/02_statistics.ipynb", f"{folder}/run/{name}"
    acts = {
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
    out = {}
    for what, act in acts.items():
        try:
            act()
            out[what] = "done"
        except PermissionError:
            out[what] = "refused"
        except urllib.error.HTTPError as error:
            out[what] = "refused" if error.code == 403 else f"status {error.code}"
    return out
