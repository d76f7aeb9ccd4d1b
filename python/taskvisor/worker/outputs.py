"""stdout and stderr of a worker with one job at a time: flushed after each job, and put back if the job closed them."""

from __future__ import annotations

import fcntl
import os
import sys

from .channel import Closed
from .process import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

#: Lowest number for the spare descriptors.
_HIGH = 100


class Outputs:
    """Restores descriptors 1 and 2 for the next job, should a job have closed or replaced them."""

    def __init__(self, for_many_jobs: bool) -> None:
        self._names = {1: "stdout", 2: "stderr"}
        self._identities = {number: identity(number) for number in self._names} if for_many_jobs else {}
        kept = [number for number, found in self._identities.items() if found is not None]
        self._spares = {number: fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _HIGH) for number in kept}

    def spares(self) -> list[int]:
        """The spare descriptors. A child process of a job must close them, or the pipe behind them never ends."""
        return list(self._spares.values())

    def settle(self) -> None:
        """Flushes what the job printed, before its outcome is sent."""
        for number, spare in self._spares.items():
            if identity(number) != self._identities[number]:
                if identity(spare) != self._identities[number]:
                    raise Closed(f"the job closed descriptors {number} and {spare}, which its output goes to")
                os.dup2(spare, number)
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

    def _reopen(self, number: int, name: str) -> None:
        """Opens the stream anew. The job closed it with its descriptor, which `settle` has restored."""
        if identity(number) is None:
            return
        stream: TextIO = open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
