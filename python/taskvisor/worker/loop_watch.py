"""Watches the event loop of mode coroutine from a thread of its own: which job keeps it from turning, and where.

While a job blocks the loop no other job goes on, and time limits of the others run out. Before the first of them does, the
worker ends: the job that blocks has failed, the others are given back unspent. It never judges a loop that waits for the
supervisor, or a process that was stopped.

A call in C that keeps the interpreter's lock stops this thread as well. It is the first to run after that call, and judges
then, before the loop reads that limits are over.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from asyncio import events
from contextvars import copy_context
from typing import Any, Callable, Optional

from ..client import around
from ..client.running_job import Job, of_task
from ..errors import EventLoopBlocked
from ..protocol import frames
from . import outcome, streams
from .outgoing import Outgoing
from .place import LONGEST_TRACE, PACKAGE
from .shared_loop import JobTask

#: How often it looks, in seconds.
_TICK = 0.25
#: After so many lost seconds the supervisor is asked whether the process was stopped.
_STOPPED = 0.5
#: A loop that a job blocks for this many seconds is reported, whatever the limits are.
_LONG = 5.0
#: The most seconds by which it is ahead of the supervisor, whose clock for a limit starts a little earlier.
_AHEAD = 1.0
#: Seconds after which a job that was given back may begin elsewhere. This process has ended by then.
_LATER = 1.0
#: Seconds at most for what the application does about the failure of a job that blocks: others wait meanwhile.
_HOOKS = 0.5
#: In bytes, of what the supervisor has sent meanwhile.
_PEEK = 256 * 1024
#: Functions of this package that wait for the supervisor.
_WAITS = ("_pump", "_write_all")
#: The frame of asyncio that calls what is due. Loops of others, such as uvloop, have none.
_TURN = events.Handle._run.__code__


class Watched:
    """A running job as the watch sees it."""

    __slots__ = ("job", "line", "task")

    def __init__(self, job: Job) -> None:
        self.job: Job = job
        #: None for a plain function: it runs in a thread, which cannot be ended from outside.
        self.task: Optional[JobTask] = None
        #: The end of a job that has returned from its thread, which the loop has yet to send.
        self.line: Optional[bytes] = None


class _Block:
    """One call in the loop that has not returned. Calls with the same handle are the same."""

    def __init__(self, handle: object, job: Job, frame: Any) -> None:
        self.handle: object = handle
        self.job: Job = job
        self.frame: Any = frame
        self.seconds: float = 0.0
        self.is_reported = False
        #: When jobs were first seen that the supervisor has sent and nobody has read, by id.
        self.unread: dict[str, float] = {}
        #: All that wait there now.
        self.waiting: list[dict[str, Any]] = []


class _Clock:
    """Tells how much of the time since the last turn of the watch a job may be charged with."""

    def __init__(self, loop_thread: int) -> None:
        self._cpu = time.pthread_getcpuclockid(loop_thread)
        self._since, self._used = self._now()
        #: Seconds that no job was charged with.
        self.lost: float = 0.0

    def _now(self) -> tuple[float, float]:
        return time.monotonic(), time.clock_gettime(self._cpu)

    def age(self) -> float:
        """The seconds since this turn began."""
        return time.monotonic() - self._since

    def passed(self) -> float:
        """In seconds; the next turn begins now."""
        (since, used), (self._since, self._used) = (self._since, self._used), self._now()
        passed = self._since - since
        found = charged(passed, self._used - used)
        self.lost += passed - found
        return found


class LoopWatch:
    """The thread. It runs from the first job on, and sleeps while there is none."""

    def __init__(self, loop: asyncio.AbstractEventLoop, outgoing: Outgoing, descriptor: int,
                 running: Callable[[], list[Watched]], on_stop: Callable[[], None]) -> None:
        self._loop = loop
        self._outgoing = outgoing
        self._descriptor = descriptor
        self._running = running
        self._on_stop = on_stop
        self._loop_thread = threading.get_ident()
        self._clock = _Clock(self._loop_thread)
        self._wake = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._block: Optional[_Block] = None
        #: How often the loop was seen to turn.
        self._turns = 0

    def begin_job(self) -> None:
        """A job begins."""
        if not self._wake.is_set():
            # What the loop did without a job is no job's.
            self._clock.passed()
            self._wake.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="taskvisor-watch", daemon=True)
                self._thread.start()

    def _watch(self) -> None:
        # Signals are for the main thread, whose system calls they interrupt.
        # Python 3.7 has no `valid_signals`.
        signal.pthread_sigmask(signal.SIG_BLOCK, getattr(signal, "valid_signals", lambda: set(signal.Signals))())
        while True:
            self._wake.wait()
            self._rest(time.sleep, _TICK)
            if not self._running():
                self._wake.clear()
                if not self._running():
                    continue
                self._wake.set()
            turned = threading.Lock()
            turned.acquire()
            try:
                if self._clock.lost > _STOPPED:
                    self._clock.lost = 0.0
                    self._loop.call_soon_threadsafe(self._on_stop)
                self._loop.call_soon_threadsafe(turned.release)
            except RuntimeError:
                # The loop is closed: the worker ends.
                return
            while not self._rest(turned.acquire, True, _TICK):
                pass
            self._turns += 1

    def _rest(self, wait: Callable[..., Any], *arguments: Any) -> Any:
        """Waits, and looks before and after it: wherever this thread gives up the interpreter's lock, a job may keep it."""
        self._look(self._clock.passed())
        # This thread can lose the lock at any line. A call in C that ended before this one must be seen before the wait.
        while self._clock.age() > _TICK:
            self._look(self._clock.passed())
        result = wait(*arguments)
        self._look(self._clock.passed())
        return result

    def _look(self, passed: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        # asyncio's own loops are in Python, and show each call.
        found = find_block(frame) if isinstance(self._loop, asyncio.BaseEventLoop) else self._find_step(frame)
        if found is None or self._block is None or found.handle != self._block.handle:
            # It has begun at any time since the last turn, or has kept the watch from turning.
            self._block, passed = found, passed - 2 * _TICK
        block = self._block
        if block is None or found is None or passed <= 0:
            return
        block.frame = found.frame
        block.seconds += passed
        # System calls give up the interpreter's lock: a call that has ended must not send its end meanwhile.
        with self._outgoing.lock:
            self._judge(block)

    def _find_step(self, frame: Any) -> Optional[_Block]:
        """The step of a job's task in which a loop is that shows no calls. A task makes one step in a turn."""
        task = None if frame is None or waits(frame) else asyncio.current_task(self._loop)
        if task is None:
            return None
        job = next((run.job for run in self._running() if run.task is task), None)
        if job is None and hasattr(task, "get_context"):
            job = task.get_context().get(of_task)
        return None if job is None else _Block((task, self._turns), job, frame)

    def _judge(self, block: _Block) -> None:
        others = [run for run in self._running() if run.job is not block.job]
        now = time.monotonic()
        limits = [(run.job.time_limit, run.job.started + run.job.stopped) for run in others] + self._unread_limits(block, now)
        if any(limit is not None and is_due(limit, now - started, block.seconds) for limit, started in limits):
            left = min(limit - (now - started) for limit, started in limits if limit is not None)
            self._end_worker(block, others, max(0.1, min(_HOOKS, left / 2)))
        elif block.seconds >= _LONG and limits and not block.is_reported:
            block.is_reported = True
            self._report(block, len(limits))

    def _unread_limits(self, block: _Block, now: float) -> list[tuple[Optional[float], float]]:
        """The limits of jobs that wait in the channel, with the times since when they do at least."""
        found: list[tuple[Optional[float], float]] = []
        jobs, late = _jobs_in(_peek(self._descriptor))
        block.waiting = jobs
        for job in jobs:
            id, limit = str(job.get("id")), job.get("time_limit")
            since = block.unread.setdefault(id, now - _TICK)
            found.append((limit, now - limit if limit is not None and id in late else since))
        return found

    def _report(self, block: _Block, others: int) -> None:
        jobs = "another job waits" if others == 1 else f"{others} other jobs wait"
        said = (f"job {block.job.id} has blocked the event loop of its worker for {block.seconds:.0f} s, and {jobs}. "
                f"{_ADVICE}. It is here:\n{place(block.frame)}")
        self._outgoing.send_now(frames.frame("warning", {"text": said}) + self._log(block.job, said))

    def _end_worker(self, block: _Block, others: list[Watched], patience: float) -> None:
        """Ends the process: nobody can end a call in the loop's thread. Waits this many seconds for hooks of the job."""
        said = f"blocked the event loop of its worker for {block.seconds:.1f} s, until a time limit of another job was near or over"
        where = place(block.frame)
        lines = [frames.frame("warning", {"text": f"job {block.job.id} {said}. {_ADVICE}. It was here:\n{where}"})]
        for run in others:
            streams.finish(run.job)
            lines.append(run.line or outcome.given_back(run.job, _LATER, f"job {block.job.id} {said}"))
        # Of several that nobody has read the supervisor knows only of the last for certain.
        for job in block.waiting:
            lines.append(outcome.given_back(Job(job), _LATER, f"job {block.job.id} {said}"))
        if any(run.job is block.job for run in self._running()):
            streams.finish(block.job)
            self._tell_hooks(block, f"{said}. {_ADVICE}", patience)
            lines.append(self._log(block.job, f"it {said}. {_ADVICE}. It was here:\n{where}"))
            lines.append(outcome.blocked(block.job, f"{said}. {_ADVICE}", where))
        # All at once, and the end at once after it: nothing here may run on when these jobs begin elsewhere.
        self._outgoing.send_now(b"".join(lines))
        self._outgoing.drain()
        os._exit(1)

    def _tell_hooks(self, block: _Block, said: str, patience: float) -> None:
        """Has the middleware of the application told of the failure, in the context of the job.

        Nothing is sent yet, so that the job cannot begin elsewhere while they run. They may print.
        """
        lock = self._outgoing.lock

        def tell() -> None:
            lock.deputy = threading.get_ident()
            of_task.set(block.job)
            around.fail(block.job, EventLoopBlocked(said))
            around.flush()

        of_call: Any = getattr(block.handle, "_context", None)
        # A copy: the blocked call is in the context itself.
        context = copy_context() if of_call is None else of_call.copy()
        thread = threading.Thread(target=context.run, args=(tell,), name="taskvisor-failure", daemon=True)
        thread.start()
        thread.join(patience)
        lock.is_muted = True

    @staticmethod
    def _log(job: Job, text: str) -> bytes:
        return frames.log(job.id, f"taskvisor.worker: {text}".rstrip("\n"))


_ADVICE = ("Use what can be awaited, `await asyncio.to_thread(...)`, or a plain function, which has a thread of its own")


def charged(passed: float, used: float) -> float:
    """Of the seconds of a turn those that are the job's. The loop's thread has used so many seconds of CPU time in them.

    Time in which the whole process was stopped is no job's; a thread that keeps the interpreter's lock for long computes.

    >>> charged(0.25, 0), charged(60, 0.1), charged(9, 8.5)
    (0.25, 0.5, 8.5)
    """
    return max(min(passed, 2 * _TICK), used)


def is_due(limit: float, ran: float, blocked: float) -> bool:
    """Whether a job with this limit is about to exceed it because another one blocks the loop. All in seconds.

    A short block at the end of a long run is not its cause.

    >>> is_due(3, 2.3, 2.3), is_due(3, 2, 2), is_due(60, 59.5, 2), is_due(60, 59.5, 30)
    (True, False, False, True)
    """
    return ran >= limit - min(_AHEAD, limit / 4) and blocked >= max(min(1.0, limit / 2), limit / 4)


def find_block(frame: Any) -> Optional[_Block]:
    """The call in which the loop's thread is, if it is one of a job. None if it waits for the supervisor."""
    if frame is None or waits(frame):
        return None
    innermost = frame
    while frame is not None and frame.f_code is not _TURN:
        frame = frame.f_back
    handle = None if frame is None else frame.f_locals.get("self")
    context = getattr(handle, "_context", None)
    job: Optional[Job] = None if context is None else context.get(of_task)
    return None if job is None else _Block(handle, job, innermost)


def waits(frame: Any) -> bool:
    """Whether a thread with this innermost frame waits for the supervisor."""
    return frame.f_code.co_name in _WAITS and frame.f_code.co_filename.startswith(PACKAGE)


def place(frame: Any) -> str:
    """The frames of a job's own code in the call, and of what it called."""
    inner: list[Any] = []
    # Where no frame calls it, those that run the worker are the last ones.
    while frame is not None and frame.f_code is not _TURN and frame.f_globals.get("__name__") != "runpy":
        if not frame.f_code.co_filename.startswith(PACKAGE):
            inner.append((frame, frame.f_lineno))
        frame = frame.f_back
    stack = traceback.StackSummary.extract(reversed(inner))
    return "".join(stack.format())[-LONGEST_TRACE:]


def _peek(descriptor: int) -> bytes:
    """What has arrived on the channel. It stays there, so that the supervisor knows that nobody has read it."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as channel:
            return channel.recv(_PEEK, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return b""


def _jobs_in(chunk: bytes) -> tuple[list[dict[str, Any]], set[str]]:
    r"""The jobs in whole lines of the supervisor, and the ids of those whose time limit is over.

    >>> _jobs_in(b'"}\n{"run":{"job":{"id":"7","time_limit":3}}}\n{"ping":{}}\n{"run":{"jo')
    ([{'id': '7', 'time_limit': 3}], set())
    >>> _jobs_in(b'{"cancel":{"job":"7","why":"time limit"}}\n{"cancel":{"job":"8","why":"canceled"}}\n')
    ([], {'7'})
    """
    found, late = [], set()
    for line in chunk.split(b"\n")[:-1]:
        try:
            frame = json.loads(line)
            if "run" in frame:
                found.append(frame["run"]["job"])
            elif frame["cancel"]["why"] == "time limit":
                late.add(str(frame["cancel"]["job"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            # Another frame, or the rest of one whose beginning was read.
            pass
    return found, late
