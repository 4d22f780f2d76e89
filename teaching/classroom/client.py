"""What a learner's browser does, without the browser: the hub's REST API and the websocket of a kernel."""

import asyncio
import json
import time

from jupyter_client.session import Session
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import websocket_connect

AsyncHTTPClient.configure(None, max_clients=200)
PATIENCE = 300  # seconds for anything: thirty learners on two cores wait long


class Refused(Exception):
    """An answer of the hub or of a server that was not expected: status and text."""

    def __init__(self, request, status, text):
        super().__init__(f"{request}: {status} {text[:1000]}")
        self.status = status


class Learner:
    """One learner of a class whose hub is at address, with a token that may act for this learner.

    certificate: the file that https is trusted by, None for what the system trusts.
    """

    def __init__(self, address, token, name, certificate=None):
        self.address, self.token, self.name, self.certificate = address, token, name, certificate

    async def ask(self, path, method="GET", body=None, ok=(200, 201, 202, 204)):
        """Return the JSON answer to a request, None if it is empty; raise Refused for a status not in ok."""
        text = json.dumps(body) if body is not None else ("" if method in ("POST", "PUT") else None)
        request = self._request(self.address + path, method=method, body=text)
        answer = await AsyncHTTPClient().fetch(request, raise_error=False)
        if answer.code not in ok:
            raise Refused(f"{method} {path}", answer.code, answer.body.decode(errors="replace") if answer.body else "")
        return json.loads(answer.body) if answer.body else None

    def _request(self, address, **options):
        headers = {"Authorization": f"token {self.token}"}
        return HTTPRequest(address, headers=headers, request_timeout=PATIENCE, ca_certs=self.certificate, **options)

    async def start(self):
        """Start the learner's server and wait until it is ready."""
        await self.ask(f"/hub/api/users/{self.name}", "POST", ok=(201, 409))
        await self.ask(f"/hub/api/users/{self.name}/server", "POST", ok=(201, 202, 400))
        end = time.monotonic() + PATIENCE
        while not await self.running():
            if time.monotonic() > end:
                raise Refused(f"the server of {self.name}", "no answer", f"not ready after {PATIENCE} s")
            await asyncio.sleep(0.3)

    async def running(self):
        """Return whether the hub knows a server of this learner that is ready."""
        user = await self.ask(f"/hub/api/users/{self.name}", ok=(200, 404))
        return user.get("servers", {}).get("", {}).get("ready", False)

    async def read(self, path):
        """Return the content of a file in the learner's home."""
        return (await self.ask(f"/user/{self.name}/api/contents/{path}"))["content"]

    async def save(self, path, notebook):
        body = {"type": "notebook", "content": notebook}
        await self.ask(f"/user/{self.name}/api/contents/{path}", "PUT", body)

    async def kernel(self, path):
        """Open a notebook's kernel, as opening the notebook does, on a server that runs; return its Kernel."""
        if not await self.running():
            await self.start()
        body = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
        session = await self.ask(f"/user/{self.name}/api/sessions", "POST", body)
        return await self.connect(session["kernel"]["id"])

    async def connect(self, kernel):
        socket = f"{self.address}/user/{self.name}/api/kernels/{kernel}/channels".replace("http", "ws", 1)
        return Kernel(kernel, await websocket_connect(self._request(socket), max_message_size=100 << 20))


class Kernel:
    """A kernel behind a websocket."""

    def __init__(self, name, socket):
        self.name, self.socket = name, socket

    async def run(self, cells):
        """Run cells as Run All does, all sent at once; return [text of a cell's output], [(error, its text)], seconds.

        seconds: until the first output, and until the last cell was done.
        """
        begin, first, errors = time.monotonic(), None, []
        texts, session = {}, Session(key=b"")
        for source in cells:
            request = session.msg("execute_request", {"code": source, "stop_on_error": False})
            texts[request["msg_id"]] = ""
            await self.socket.write_message(json.dumps(request | {"channel": "shell"}, default=str))
        waiting = set(texts)
        while waiting:
            raw = await asyncio.wait_for(self.socket.read_message(), PATIENCE)
            if raw is None:
                raise Refused("the kernel's websocket", "closed", "kernel or server are gone")
            kind, parent, content = _message(raw)
            if parent not in texts:
                continue
            if kind in ("stream", "execute_result", "display_data", "error"):
                first = first or time.monotonic() - begin
                texts[parent] += content.get("text", "") or content.get("data", {}).get("text/plain", "")
            if kind == "error":
                errors.append((content["ename"], content["evalue"]))
            if kind == "status" and content["execution_state"] == "idle":  # comes after all that the cell puts out
                waiting.discard(parent)
        return list(texts.values()), errors, (first, time.monotonic() - begin)

    async def say(self, code):
        """Run one cell; return what it printed, and the error if it raised one."""
        (text,), errors, _ = await self.run([code])
        return text.strip() + "".join(f"{name}: {value}" for name, value in errors)


def _message(raw):
    """Return (kind, the request that it answers, content) of a message of Jupyter's protocol, with buffers or not."""
    if isinstance(raw, bytes):  # a table of offsets comes first; the JSON is the first part
        raw = raw[int.from_bytes(raw[4:8], "big") : int.from_bytes(raw[8:12], "big")]
    message = json.loads(raw)
    return message["header"]["msg_type"], message["parent_header"].get("msg_id"), message["content"]
