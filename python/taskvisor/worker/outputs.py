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


class Outputs:
    """Restores descriptors 0 to 2 for the next job, with `sys.stdin`, `sys.stdout` and `sys.stderr`."""

    def __init__(self, for_many_jobs: bool) -> None:
        self._names = {1: "stdout", 2: "stderr"}
        names = {0: "stdin", **self._names} if for_many_jobs else {}
        found = {number: identity(number) for number in names}
        self._identities = {number: known for number, known in found.items() if known is not None}
        self._spares = {number: fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _HIGH) for number in self._identities}
        self._blocks = {number: os.get_blocking(number) for number in self._identities}
        self._streams: dict[str, Any] = {name: _real(getattr(sys, name)) for name in names.values()}

    def spares(self) -> list[int]:
        """The spare descriptors. A child process of a job must close them, or the pipe behind them never ends."""
        return list(self._spares.values())

    def settle(self) -> list[str]:
        """Flushes what the job printed, before its outcome is sent. Returns what else the job had changed here."""
        changed = self._restore_descriptors()
        for name, stream in self._streams.items():
            if _real(getattr(sys, name)) is not stream:
                changed.append(f"sys.{name}")
                if name != "stdin":
                    _flush(getattr(sys, name))
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
        changed = []
        for number, spare in self._spares.items():
            if identity(number) != self._identities[number]:
                if identity(spare) != self._identities[number]:
                    raise Closed(f"the job closed descriptors {number} and {spare}, which its output goes to")
                os.dup2(spare, number)
                changed.append(f"descriptor {number}")
            # A program that the job started and killed may have left it so: Node does.
            if os.get_blocking(number) != self._blocks[number]:
                os.set_blocking(number, self._blocks[number])
                changed.append(f"O_NONBLOCK of descriptor {number}")
        return changed

    def _reopen(self, number: int, name: str) -> None:
        """Opens the stream anew. The job closed it with its descriptor, which `settle` has restored."""
        if identity(number) is None:
            return
        stream: TextIO = open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
        if name in self._streams:
            self._streams[name] = stream


def _real(stream: Any) -> Any:
    """The stream below the names of left threads."""
    return stream.real if isinstance(stream, LabelledStream) else stream


def _flush(stream: Any) -> None:
    try:
        stream.flush()
    except Exception:
        # It is code of the job too, and may be closed.
        pass
