"""Puts jobs from outside of a job: over the API socket of the supervisor, or by the program if none listens.

It never opens a store or a broker itself.
"""

from __future__ import annotations

from ..errors import PutError
from . import api_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def put(jobs: list[dict[str, Any]]) -> list[str]:
    """Queues the jobs and returns their ids, over the socket if a supervisor listens there."""
    path = api_socket.socket_path()
    try:
        connection = api_socket.connect(path)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as error:
        from . import program

        return program.put(jobs, f"nobody listens on {path} ({error.strerror})")
    except OSError as error:
        raise PutError(f"failed to put {api_socket.count(jobs)}: cannot connect to {path}: {error.strerror}") from None
    with connection:
        return api_socket.put(connection, path, jobs)
