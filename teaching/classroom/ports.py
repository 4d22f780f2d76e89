"""Ports of this machine."""

import socket
from pathlib import Path


def free_port(others=()):
    """Return a port that no program listens at and that is not among the others, whose servers may not listen yet."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in others:
            return port


def listeners(port):
    """Return the ids of the users whose programs listen at a port, at any address of this machine."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in _lines(Path("/proc/net", name))]
    return {int(line[7]) for line in lines if line[3] == "0A" and int(line[1].rpartition(":")[2], 16) == port}


def _lines(table):
    return table.read_text().splitlines()[1:] if table.exists() else []  # without IPv6 there is no tcp6
