"""Ports of this machine."""

import contextlib
import os
import re
import socket
from pathlib import Path

import psutil


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


def are_scarce():
    """Return whether programs hold half as many TCP sockets as this machine has ports to give out."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    held = re.search(r"^TCP:.* alloc (\d+)", Path("/proc/net/sockstat").read_text(), re.MULTILINE)
    return bool(held) and 2 * int(held[1]) > last - first


def sockets(uid):
    """Return how many sockets a user's programs hold. Those that do not listen are in no table of /proc/net."""
    held = set()
    for process in psutil.process_iter(["uids"]):
        with contextlib.suppress(OSError):  # it ended just now
            if process.info["uids"].real == uid:
                for file in os.scandir(f"/proc/{process.pid}/fd"):
                    with contextlib.suppress(OSError):
                        held.add(os.readlink(file.path))
    return sum(file.startswith("socket:") for file in held)


def _lines(table):
    return table.read_text().splitlines()[1:] if table.exists() else []  # without IPv6 there is no tcp6
