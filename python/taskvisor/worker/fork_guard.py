"""Separates a process that a job forks from the worker: it has neither the worker's channel nor its signal handler."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterable

from ..client import running_job
from .process import close, flush_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

#: The C module behind `signal`, without the lookup of enum names at each call.
_signal: Any = sys.modules["_signal"]


class ForkGuard:
    """Must be made after the worker has installed its handler of SIGTERM. From then on children of jobs lose both."""

    def __init__(self, descriptors: list[int]) -> None:
        #: False in a child.
        self.is_worker: bool = True
        self._descriptors = descriptors
        self._handler = _signal.getsignal(signal.SIGTERM)
        self._mask: Iterable[Any] = ()
        os.register_at_fork(before=self._before, after_in_parent=self._in_parent, after_in_child=self._in_child)

    def _before(self) -> None:
        # Python loses a signal that comes to a child before its hooks ran. While blocked, it comes after them.
        if self.is_worker:
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _in_parent(self) -> None:
        if self.is_worker:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _in_child(self) -> None:
        if not self.is_worker:
            return
        self.is_worker = False
        job = running_job.running()
        if job is not None:
            # Without a runtime, jobs that it puts go to the supervisor's socket.
            job.runtime = None
        # The child shares the pipe behind it with the worker, which would take the child's signals for its own.
        signal.set_wakeup_fd(-1)
        if _signal.getsignal(signal.SIGTERM) == self._handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for descriptor in self._descriptors:
            close(descriptor)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def leave_child(done: bytes) -> NoReturn:
    """Ends a forked child that returned from the job's function. Only its parent, the worker, reports an outcome."""
    flush_streams()
    os._exit(0 if b'"outcome":"complete"' in done else 1)


def leave_worker() -> NoReturn:
    """Ends a worker whose job was ended by SIGTERM, without the interpreter's own finalization, which takes 90 ms and more.

    `job cancel --wait` waits for this. Functions of `atexit` run.
    """
    atexit._run_exitfuncs()
    flush_streams()
    os._exit(0)
