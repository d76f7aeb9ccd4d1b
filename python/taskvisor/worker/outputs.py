"""stdout and stderr of a worker with one job at a time: flushed after each job, and there for the next."""

from __future__ import annotations

import fcntl
import os
import sys

from .channel import Closed
from .process import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

#: Where the spare descriptors are out of the way.
_HIGH = 100


class Outputs:
    """A job may close what it prints to, or put a file there. The next one prints to the right place all the same."""

    def __init__(self, for_many_jobs: bool) -> None:
        self._names = {1: "stdout", 2: "stderr"}
        self._identities = {number: identity(number) for number in self._names} if for_many_jobs else {}
        kept = [number for number, found in self._identities.items() if found is not None]
        self._spares = {number: fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _HIGH) for number in kept}

    def spares(self) -> list[int]:
        """What a child process of a job must not hold open: a daemon's log would never come to its end."""
        return list(self._spares.values())

    def settle(self) -> None:
        """What was printed must be there before the end of the job is told."""
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
                # A full disk behind a file of the job's own, say: not ours to judge.
                pass
            except ValueError:
                self._reopen(number, name)

    def _reopen(self, number: int, name: str) -> None:
        """The job has closed the object, and the descriptor with it; that is mended by now."""
        if identity(number) is None:
            return
        stream: TextIO = open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
