"""What keeps the jobs of one event loop apart: a task that knows who cancels it, and a loop that no job can take from others.

A thread that a job starts by itself carries no job: for what it does nobody can be named.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Any, Callable, Optional

from ..client.running_job import Job, of_task
from . import dump_later

#: The C module behind `signal`, without the lookup of enum names at each call.
_signal: Any = sys.modules["_signal"]
#: Methods that end the loop, or what all jobs have of it: `shutdown_asyncgens` would end a neighbour's `async for` early.
_OF_ALL = ("stop", "close", "shutdown_default_executor", "shutdown_asyncgens")

if TYPE_CHECKING:
    _Task = asyncio.Task[None]
else:
    # Not to be subscripted in Python 3.8.
    _Task = asyncio.Task


class JobTask(_Task):
    """Runs a job. It notes from which job's code it is canceled."""

    #: What it runs.
    job: Optional[Job] = None
    #: Whether its first step has been made.
    has_begun = False
    #: Whether code that is not its own job's has canceled it.
    is_canceled_by_others = False
    #: The job whose code has, if it was one's.
    culprit: Optional[Job] = None

    def cancel(self, *arguments: Any, **named: Any) -> bool:
        """As that of any task, but the first step is made in any case: without it the job would never be answered."""
        asks = of_task.get()
        if asks is None or asks is not self.job:
            self.is_canceled_by_others, self.culprit = True, asks
        if self.has_begun:
            return super().cancel(*arguments, **named)
        self.get_loop().call_soon(super().cancel, *arguments)
        return not self.done()


def was_cut_off(error: Optional[BaseException]) -> bool:
    """Whether the exception is a cancellation, or came of one.

    >>> was_cut_off(asyncio.CancelledError()), was_cut_off(ValueError())
    (True, False)
    """
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, asyncio.CancelledError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


class SharedLoop:
    """Guards a loop that several jobs share, and handles SIGTERM in it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_term: Callable[[], None]) -> None:
        self._loop = loop
        self._on_term = on_term
        #: What jobs want called at SIGTERM, too.
        self._theirs: dict[Job, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        for name in _OF_ALL:
            # Python 3.8 has no `shutdown_default_executor`.
            if hasattr(loop, name):
                setattr(loop, name, _refuses_jobs(name, getattr(loop, name)))
        self._add: Any = loop.add_signal_handler
        self._remove: Any = loop.remove_signal_handler
        self._add(signal.SIGTERM, self._handle)
        self._handler = _signal.getsignal(signal.SIGTERM)
        setattr(loop, "add_signal_handler", self._add_handler)
        setattr(loop, "remove_signal_handler", self._remove_handler)

    def end_job(self, job: Job) -> None:
        """The job has ended: what it has set for SIGTERM ends with it."""
        dump_later.end_job(job)
        if self._theirs:
            self._theirs.pop(job, None)
        if _signal.getsignal(signal.SIGTERM) is not self._handler:
            self._add(signal.SIGTERM, self._handle)
            self._handler = _signal.getsignal(signal.SIGTERM)

    def _handle(self) -> None:
        self._on_term()
        for callback, arguments in list(self._theirs.values()):
            self._loop.call_soon(callback, *arguments)

    def _add_handler(self, number: int, callback: Callable[..., Any], *arguments: Any) -> None:
        job = of_task.get()
        if job is None or number != signal.SIGTERM:
            self._add(number, callback, *arguments)
        else:
            self._theirs[job] = callback, arguments

    def _remove_handler(self, number: int) -> bool:
        job = of_task.get()
        if job is None or number != signal.SIGTERM:
            removed: bool = self._remove(number)
            return removed
        return self._theirs.pop(job, None) is not None


def _refuses_jobs(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*arguments: Any, **named: Any) -> Any:
        if of_task.get() is not None:
            raise RuntimeError(f"a job must not call {name}() of the event loop: other jobs of this worker run in it")
        return method(*arguments, **named)
    return guarded
