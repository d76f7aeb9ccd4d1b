"""What keeps the jobs of one event loop apart: a task that knows who cancels it, and a loop that no job can take from others.

A thread that a job starts by itself has no job of its own, so that it can serve others later; but who has started it is
kept, for what it cancels.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Callable, Optional

from ..client.running_job import Job, of_task
from . import dump_later
from .left_threads import POOLS

#: The C module behind `signal`, without the lookup of enum names at each call.
_signal: Any = sys.modules["_signal"]
#: Methods that end the loop, or what all jobs have of it: `shutdown_asyncgens` would end a neighbour's `async for` early.
_OF_ALL = ("stop", "close", "shutdown_default_executor", "shutdown_asyncgens")

if TYPE_CHECKING:
    _Task = asyncio.Task[None]
    _Coroutine = Coroutine[Any, Any, None]
else:
    # Not to be subscripted in Python 3.8.
    _Task = asyncio.Task
    _Coroutine = Coroutine


class _Steps(_Coroutine):
    """Passes a task's steps on to its coroutine, and notes the exception by which others cancel it.

    No message of the cancellation says that: it does not come through a task that the job awaits and that was canceled
    before the job's own.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._coroutine = coroutine
        self._send = coroutine.send
        #: Whether the next step brings it. If that step brings a value, the cancellation was caught on the way.
        self.is_next = False
        #: Those that were brought.
        self.brought: list[BaseException] = []

    def send(self, value: Any) -> Any:
        self.is_next = False
        return self._send(value)

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        if self.is_next:
            self.is_next = False
            if isinstance(kind, BaseException) and _comes_of(kind, lambda one: isinstance(one, asyncio.CancelledError)):
                self.brought.append(kind)
        return self._coroutine.throw(kind) if value is None else self._coroutine.throw(kind, value, traceback)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Any:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        # What shows a task's stack looks at these of its coroutine.
        return getattr(self._coroutine, name)


class JobTask(_Task):
    """Runs a job. It notes from which job's code it is canceled."""

    #: What it runs.
    job: Optional[Job] = None
    #: Whether its first step has been made.
    has_begun = False
    #: The job whose code has canceled it, if it was another one's.
    culprit: Optional[Job] = None

    def __init__(self, coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
        self._steps = _Steps(coroutine)
        super().__init__(self._steps, loop=loop)

    def cancel(self, *arguments: Any, **named: Any) -> bool:
        """As that of any task, but the first step is made in any case: without it the job would never be answered."""
        if self.has_begun:
            return self._cancel(_asking(), *arguments, **named)
        self.get_loop().call_soon(self._cancel, _asking(), *arguments)
        return not self.done()

    def _cancel(self, asks: Optional[Job], *arguments: Any, **named: Any) -> bool:
        if asks is None or asks is not self.job:
            self._steps.is_next, self.culprit = True, asks
        return super().cancel(*arguments, **named)

    def was_cut_off_by_others(self, error: BaseException) -> bool:
        """Whether the exception came of a cancellation that was not its own job's. Not so if the job has gone on after
        that, and has failed by itself."""
        return _comes_of(error, lambda one: any(one is brought for brought in self._steps.brought))


def _comes_of(error: Optional[BaseException], is_it: Callable[[BaseException], bool]) -> bool:
    seen = set()
    while error is not None and id(error) not in seen:
        if is_it(error):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


#: The job that has started this thread.
_starter: ContextVar[Optional[Job]] = ContextVar("taskvisor_starter", default=None)


def _asking() -> Optional[Job]:
    """The job whose code runs here, if that is known."""
    job = of_task.get()
    starter = _starter.get() if job is None else None
    return job if starter is None or starter.ended else starter


def _keep_starters() -> None:
    """Has each thread know the job that starts it. Not those of pools, which serve one job after the other."""
    start = threading.Thread.start

    def kept(thread: threading.Thread) -> None:
        job, run = _asking(), thread.run
        if job is not None and getattr(getattr(thread, "_target", None), "__module__", None) not in POOLS:
            def carried() -> None:
                vars(thread).pop("run", None)
                _starter.set(job)
                run()
            setattr(thread, "run", carried)
        start(thread)

    setattr(threading.Thread, "start", kept)


class SharedLoop:
    """Guards a loop that several jobs share, and handles SIGTERM in it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_term: Callable[[], None]) -> None:
        self._loop = loop
        self._on_term = on_term
        _keep_starters()
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
