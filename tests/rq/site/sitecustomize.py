"""RQ's tests have the port 6379 of this host in their code: here it is the port of the test's own redis-server."""

import os
import socket

_PORT = int(os.environ.get("RQ_MEASURE_PORT", "0"))
_connect = socket.socket.connect


def connect(self, address):
    """Connects to the test's own server in place of one that somebody may run here."""
    if _PORT and isinstance(address, tuple) and address[1] == 6379 and address[0] in ("127.0.0.1", "localhost", "::1"):
        address = ("127.0.0.1" if self.family == socket.AF_INET else address[0], _PORT, *address[2:])
    return _connect(self, address)


socket.socket.connect = connect
