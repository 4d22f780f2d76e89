"""Ports of this machine: one that is free, and whether one is."""

import socket


def bind(host, port):
    """Raise OSError if no program could listen at host and port now."""
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def another_port(others):
    """A free port that is not among the others: a server that was told to listen at one may not do so yet."""
    return next(port for port in iter(free_port, None) if port not in others)
