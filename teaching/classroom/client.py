"""What a learner's browser does, without the browser: the hub's REST API and the websocket of a kernel."""

import asyncio
import json
import time

import requests
from jupyter_client.session import Session
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

PATIENCE = 300  # seconds for anything: thirty learners on two cores wait long
OUTPUTS = ("stream", "execute_result", "display_data", "error")


class Refused(Exception):
    """An answer of the hub or of a server that was not expected."""


class Learner:
    """One learner of a class whose hub is at address, with a token that may act for this learner."""

    def __init__(self, address, token, name):
        self.address, self.name = address, name
        self.headers = {"Authorization": f"token {token}"}

    def ask(self, path, method="GET", body=None, ok=(200, 201, 202, 204)):
        """Return the JSON answer to a request, None if it is empty; raise Refused for a status not in ok."""
        with requests.Session() as session:
            session.trust_env = False  # never by way of a proxy of the network
            url = self.address + path
            answer = session.request(method, url, json=body, headers=self.headers, timeout=PATIENCE)
        if answer.status_code not in ok:
            raise Refused(f"{method} {path}: {answer.status_code} {answer.text[:1000]}")
        return answer.json() if answer.content else None

    def start(self):
        """Start the learner's server and wait until it is ready."""
        self.ask(f"/hub/api/users/{self.name}", "POST", ok=(201, 409))
        self.ask(f"/hub/api/users/{self.name}/server", "POST", ok=(201, 202, 400))
        while not (server := self.server()).get("ready"):
            if not server:
                raise Refused(f"The server of {self.name} has ended. Its server.log or the hub's log says why.")
            time.sleep(0.3)

    def server(self):
        """Return what the hub says of this learner's server: {} if none runs, is started or is stopped."""
        return self.ask(f"/hub/api/users/{self.name}", ok=(200, 404)).get("servers", {}).get("", {})

    def read(self, path):
        """Return the content of a file in the learner's home."""
        return self.ask(f"/user/{self.name}/api/contents/{path}")["content"]

    def save(self, path, notebook):
        self.ask(f"/user/{self.name}/api/contents/{path}", "PUT", {"type": "notebook", "content": notebook})

    def kernel(self, path):
        """Open a notebook's kernel, as opening the notebook does, on a server that is started; return its Kernel."""
        if not self.server():
            self.start()
        body = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
        session = self.ask(f"/user/{self.name}/api/sessions", "POST", body)
        return Kernel(self, session["kernel"]["id"])


class Kernel:
    """A kernel of a learner's server, by its id."""

    def __init__(self, learner, name):
        self.headers = learner.headers
        server = f"{learner.address}/user/{learner.name}".replace("http", "ws", 1)
        self.address = f"{server}/api/kernels/{name}/channels"

    def run(self, cells):
        """Run cells as Run All does, all sent at once; return [text of a cell's output], [(error, its text)], seconds.

        seconds: until the first output, and until the last cell was done.
        """
        return asyncio.run(self._run(cells))

    async def _run(self, cells):
        begin, first, errors = time.monotonic(), None, []
        request = HTTPRequest(self.address, headers=self.headers, request_timeout=PATIENCE)
        socket = await websocket_connect(request, max_message_size=100 << 20)
        texts, session = {}, Session(key=b"")
        for source in cells:
            message = session.msg("execute_request", {"code": source, "stop_on_error": False})
            texts[message["msg_id"]] = ""
            await socket.write_message(json.dumps(message | {"channel": "shell"}, default=str))
        waiting = set(texts)
        while waiting:
            raw = await asyncio.wait_for(socket.read_message(), PATIENCE)
            if raw is None:
                raise Refused("The kernel's websocket was closed: kernel or server are gone.")
            message = json.loads(raw)
            kind, parent, content = message["msg_type"], message["parent_header"].get("msg_id"), message["content"]
            if parent not in texts:
                continue
            if kind in OUTPUTS:
                first = first or time.monotonic() - begin
                texts[parent] += content.get("text", "") or content.get("data", {}).get("text/plain", "")
            if kind == "error":
                errors.append((content["ename"], content["evalue"]))
            if kind == "status" and content["execution_state"] == "idle":  # comes after all that the cell puts out
                waiting.discard(parent)
        socket.close()
        return list(texts.values()), errors, (first, time.monotonic() - begin)

    def say(self, code):
        """Run one cell; return what it printed, and the error if it raised one."""
        (text,), errors, _ = self.run([code])
        return text.strip() + "".join(f"{name}: {value}" for name, value in errors)
