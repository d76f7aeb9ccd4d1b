"""stdin, stdout and stderr of a worker with one job at a time: flushed after each job, and put back if the job closed,
replaced or changed them."""

from __future__ import annotations

import fcntl
import os
import sys

from .channel import Closed
from .left_threads import LabelledStream
from .process import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

#: Lowest number for the spare descriptors.
_HIGH = 100
#: `fcntl` has it since Linux 6.10, Python has no name for it.
_F_DUPFD_QUERY = 1027


class Outputs:
    """Restores descriptors 0 to 2 for the next job, with `sys.stdin`, `sys.stdout` and `sys.stderr`."""

    def __init__(self, for_many_jobs: bool) -> None:
        self._names = {1: "stdout", 2: "stderr"}
        names = {0: "stdin", **self._names} if for_many_jobs else {}
        found = {number: identity(number) for number in names}
        self._identities = {number: known for number, known in found.items() if known is not None}
        self._spares = {number: fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _HIGH) for number in self._identities}
        self._blocks = {number: os.get_blocking(number) for number in self._identities}
        self._knows_kernel = all(_is_one_file(number, spare) for number, spare in self._spares.items())
        self._streams: dict[str, Any] = {name: _real(getattr(sys, name)) for name in names.values()}

    def spares(self) -> list[int]:
        """The spare descriptors. A child process of a job must close them, or the pipe behind them never ends."""
        return list(self._spares.values())

    def settle(self) -> list[str]:
        """Flushes what the job printed, before its outcome is sent. Returns what else the job had changed here."""
        changed = self._restore_descriptors()
        for name, stream in self._streams.items():
            now = getattr(sys, name)
            if now is not stream and _real(now) is not stream:
                changed.append(f"sys.{name}")
                if name != "stdin":
                    _flush(now)
                # This may be the end of the job's stream, which closes the descriptor if it shares it.
                setattr(sys, name, stream)
        if changed:
            self._restore_descriptors()
        for number, name in self._names.items():
            stream = getattr(sys, name)
            try:
                if stream is not None:
                    stream.flush()
            except OSError:
                # The job replaced the stream, and its file cannot be written, for example because the disk is full.
                pass
            except ValueError:
                self._reopen(number, name)
        return changed

    def _restore_descriptors(self) -> list[str]:
        changed: list[str] = []
        for number, spare in self._spares.items():
            if not self._knows_kernel or not _is_one_file(number, spare):
                self._put_back(number, spare, changed)
            # A program that the job started and killed may have left it so: Node does.
            if os.get_blocking(number) != self._blocks[number]:
                os.set_blocking(number, self._blocks[number])
                changed.append(f"O_NONBLOCK of descriptor {number}")
        return changed

    def _put_back(self, number: int, spare: int, changed: list[str]) -> None:
        known = self._identities[number]
        if identity(number) != known:
            if identity(spare) != known:
                raise Closed(f"the job closed descriptors {number} and {spare}, which its output goes to")
            os.dup2(spare, number)
            changed.append(f"descriptor {number}")

    def _reopen(self, number: int, name: str) -> None:
        """Opens the stream anew. The job closed it with its descriptor, which `settle` has restored."""
        if identity(number) is None:
            return
        stream: TextIO = open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
        if name in self._streams:
            self._streams[name] = stream


def _is_one_file(descriptor: int, spare: int) -> bool:
    """Whether both lead to one open file. False also where the kernel cannot say: this costs a quarter of `identity`."""
    try:
        return bool(fcntl.fcntl(descriptor, _F_DUPFD_QUERY, spare))
    except OSError:
        return False


def _real(stream: Any) -> Any:
    """The stream below the names of left threads."""
    return stream.real if isinstance(stream, LabelledStream) else stream


def _flush(stream: Any) -> None:
    try:
        stream.flush()
    except Exception:
        # It is code of the job too, and may be closed.
        pass
