"""Messages through a socket: eight bytes that say how long one is, and it. Bounded in size and in time."""

import struct
import time


class Ended(Exception):
    """Nobody is at the other end any more, or nothing came in time, or too much."""


class Channel:
    """One end of a socket. deadline: of time.monotonic(), None for none. left: bytes that may still come in."""

    def __init__(self, socket, most=1 << 40):
        self.socket, self.left, self.deadline = socket, most, None

    def send(self, data):
        self._wait()
        try:
            self.socket.sendall(struct.pack(">Q", len(data)) + data)
        except OSError as error:
            raise Ended(f"{type(error).__name__}") from None

    def receive(self, most=1 << 40):
        """Return the next message; Ended if it has more than most bytes."""
        (length,) = struct.unpack(">Q", self._exactly(8))
        if length > min(most, self.left):
            raise Ended("too much")
        self.left -= length
        return self._exactly(length)

    def _exactly(self, count):
        parts, left = [], count
        while left:
            self._wait()
            try:
                part = self.socket.recv(min(left, 1 << 20))
            except OSError as error:
                raise Ended("too late" if isinstance(error, TimeoutError) else type(error).__name__) from None
            if not part:
                raise Ended("the end")
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _wait(self):
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and left <= 0:
            raise Ended("too late")
        self.socket.settimeout(left)
