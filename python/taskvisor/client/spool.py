"""Leaves puts for a supervisor of another user that is stopped: members of its `socket_group` may, and its next start queues
them. The program's `put` does the same.

Imported only when it is needed.
"""

from __future__ import annotations

import os
import stat

from ..errors import PutError
from ..protocol import frames
from . import api_socket, notes
from .api_socket import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

#: The mode of the directory: members make files there, list nothing, and touch no file of another.
_DIR_MODE = 0o1730
#: The mode of a put that is complete: its owner alone can set it, and no other program does.
_MARK = 0o1644
#: Limit of the puts of one user that wait, and of the bytes of each.
_PUTS, _BYTES = 10_000, 96 << 20


class Spool:
    """The directory in which puts wait."""

    def __init__(self, path: str) -> None:
        self.path: str = path

    def put(self, jobs: list[dict[str, Any]]) -> list[str]:
        """Leaves a put, durably, and returns the ids of its jobs, which each of them must have."""
        body = frames.strict_json({"jobs": jobs}).encode()
        what = f"failed to put {count(jobs)}: no supervisor runs, and it cannot be left in {self.path}"
        if len(body) > _BYTES:
            raise PutError(f"{what}: it has more than {_BYTES} bytes")
        try:
            self._leave(body)
        except OSError as error:
            raise PutError(f"{what}: {error.strerror or error}") from None
        notes.warn([{"queue": self.path, "note": f"no supervisor runs: the put waits in {self.path}, and the next start "
                                                 "queues it"}])
        return [str(job["id"]) for job in jobs]

    def _leave(self, body: bytes) -> None:
        directory = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            name, file = _place(directory)
            try:
                with open(file, "wb", buffering=0) as left:
                    rest = memoryview(body)
                    while rest:
                        rest = rest[left.write(rest):]
                    os.fsync(file)
                    # Only now a supervisor takes it.
                    os.fchmod(file, _MARK)
                    os.fsync(file)
            except BaseException:
                os.unlink(name, dir_fd=directory)
                raise
        finally:
            os.close(directory)


def _place(directory: int) -> tuple[str, int]:
    """A new file. Where to look first is as good as random, so that a look is short."""
    uid, first = os.geteuid(), int.from_bytes(os.urandom(4), "big")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for step in range(_PUTS):
        name = f"{uid}.{(first + step) % _PUTS}"
        try:
            return name, os.open(name, flags, 0o600, dir_fd=directory)
        except FileExistsError:
            pass
    raise OSError(f"{_PUTS} puts of uid {uid} wait there already")


def find(socket: str) -> Optional[Spool]:
    """The spool of the supervisor of this socket, if that is another user's and has one.

    >>> find("/nowhere/ctl.sock") is None
    True
    """
    bases = [os.path.dirname(os.path.abspath(socket))]
    if os.environ.get("TASKVISOR_STATE_DIR"):
        # A run directory may be gone, as after the machine has started.
        bases.append(os.environ["TASKVISOR_STATE_DIR"])
    for base in bases:
        try:
            owner = os.lstat(base).st_uid
            path = os.path.realpath(os.path.join(base, "spool"))
            found = os.lstat(path)
        except OSError:
            continue
        is_open = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == _DIR_MODE and found.st_uid == owner
        if is_open and owner != os.geteuid() and api_socket.trusts(base, owner):
            return Spool(path)
    return None


def is_promised(socket: str) -> bool:
    """Whether the supervisor of another user keeps a spool: it is shut for a moment while a service starts.

    >>> is_promised("/nowhere/ctl.sock")
    False
    """
    base = os.path.dirname(os.path.abspath(socket))
    try:
        return os.lstat(base).st_uid != os.geteuid() and os.path.islink(os.path.join(base, "spool"))
    except OSError:
        return False
