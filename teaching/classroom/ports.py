"""Ports of this machine."""

import socket


def free_port(others=()):
    """Return a port that no program listens at and that is not among the others, whose servers may not listen yet."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in others:
            return port
