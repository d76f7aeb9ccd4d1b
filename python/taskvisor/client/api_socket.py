"""The socket of the supervisor: finds it, connects, and checks its owner.

It never sends a word to a listener of another user.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import time

from ..errors import PutError
from .settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How long the supervisor may take for an answer: by then its store has given up.
PATIENCE_SECONDS = 60.0
#: Pause before the next try while very many connect: the kernel does not say when a Unix socket has room again.
BETWEEN_SECONDS = 0.05


def socket_path() -> str:
    """Returns the API socket of the supervisor that the environment names.

    >>> os.environ["TASKVISOR_SOCKET"] = "/run/mine.sock"
    >>> socket_path()
    '/run/mine.sock'
    >>> del os.environ["TASKVISOR_SOCKET"]
    """
    if settings.socket is not None:
        return settings.socket
    environment = os.environ
    if environment.get("TASKVISOR_SOCKET"):
        return environment["TASKVISOR_SOCKET"]
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    if environment.get("TASKVISOR_RUN_DIR"):
        directory = environment["TASKVISOR_RUN_DIR"]
    elif os.geteuid() == 0:
        directory = "/run/taskvisor"
    elif os.path.isabs(runtime):
        directory = os.path.join(runtime, "taskvisor")
    else:
        directory = f"/tmp/taskvisor-{os.geteuid()}"
    return os.path.join(directory, "ctl.sock")


def connect(path: str, timeout: float = PATIENCE_SECONDS) -> socket.socket:
    """Connects to the supervisor. Raises OSError if none listens, PutError if another user does."""
    end = time.monotonic() + timeout
    while True:
        try:
            connection = connect_at_once(path)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
            time.sleep(BETWEEN_SECONDS)
        else:
            connection.settimeout(timeout)
            return connection


def connect_at_once(path: str) -> socket.socket:
    """As `connect`, without a wait: BlockingIOError if very many connect just now. The connection does not block."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect(path)
        _check_owner(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def is_anybody_there(path: str) -> bool:
    """Whether anybody listens on the socket. Sends nothing.

    >>> is_anybody_there("/nowhere/ctl.sock")
    False
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        except OSError:
            pass  # One that has no room for another, or that is not for this user.
    return True


def _check_owner(connection: socket.socket, path: str) -> None:
    """Refuses a listener of another user before anything is sent: that user may have made the socket first.

    The owner of the directory is trusted as well by root, and by others if root has given the directory to that user.
    """
    size = struct.calcsize("3i")
    _, theirs, _ = struct.unpack("3I", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    directory = os.path.dirname(path) or "."
    if theirs == os.geteuid() or theirs == 0:
        return
    if theirs == os.lstat(directory).st_uid and trusts(directory, theirs):
        return
    raise PutError(f"the socket {path} belongs to uid {theirs}: what listens there is not yours, and was told nothing; "
                   "set TASKVISOR_RUN_DIR to a directory of your own")


def trusts(directory: str, owner: int) -> bool:
    """Whether the owner of a directory, who is another user, may be told of jobs.

    >>> trusts("/tmp/anybody", 0)
    True
    """
    return owner == 0 or os.geteuid() == 0 or _is_given_by_root(directory)


def _is_given_by_root(directory: str) -> bool:
    """Whether only root can have put the directory there, and only its owner can change its content.

    >>> _is_given_by_root("/usr/bin"), _is_given_by_root("/tmp/anybody"), _is_given_by_root("relative")
    (True, False, False)
    """
    def parents(path: str) -> list[str]:
        above = os.path.dirname(path)
        return [above] if above == "/" else [above, *parents(above)]

    def is_roots(path: str) -> bool:
        found = os.lstat(path)
        return found.st_uid == 0 and (stat.S_ISLNK(found.st_mode) or not found.st_mode & 0o022)

    if not os.path.isabs(directory):
        return False
    try:
        found = os.lstat(directory)
        return (stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022
                and all(map(is_roots, parents(directory) + parents(os.path.realpath(directory)))))
    except OSError:
        return False


def count(jobs: list[dict[str, Any]]) -> str:
    """The number of jobs in words, for messages."""
    return "1 job" if len(jobs) == 1 else f"{len(jobs)} jobs"
