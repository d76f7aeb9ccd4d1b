"""The loop of mode coroutine: several jobs at a time in one event loop, plain functions in threads.

It never blocks the event loop, except for a `put` that is called without `await` in it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import os
import select
import sys
import threading
import time
import traceback
from collections import deque
from contextvars import copy_context
from functools import partial
from typing import Any, Optional

from ..client import around, calling
from ..client.running_job import Job, of_task
from ..errors import Interrupted, PutError, SoftTimeLimitExceeded, TimeLimitExceeded
from ..protocol import frames
from ..protocol.frames import answer, split_lines
from . import decimals, outcome, streams
from .application import Application, Function
from .fork_guard import ForkGuard, leave_child
from .loop_watch import LoopWatch, Watched
from .outgoing import Outgoing
from .place import report_cancellation
from .shared_loop import JobTask, SharedLoop

#: Threads of `asyncio.to_thread` and of name lookups beside one for each job: as many as asyncio itself has.
_SPARE_THREADS = min(32, (os.cpu_count() or 1) + 4)
_CHUNK = 64 * 1024
_LARGE_CHUNK = 1024 * 1024
#: Seconds after which a job that a neighbour has canceled may begin again.
_LATER = 1.0
#: Seconds for which the supervisor is waited for before a soft time limit is over.
_PATIENCE = 1.0
_ADVICE = "`asyncio.all_tasks()` has those of all jobs of this worker: cancel only the tasks that the job has made"


class _Run(Watched):
    """One running job."""

    __slots__ = ("soft", "stopped_by", "told")

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        #: Why it was asked to end: "soft" (it may go on), "cancel", "signal", "signal in company"; None if it was not.
        self.stopped_by: Optional[str] = None
        #: The reason in the supervisor's `cancel`.
        self.told = ""
        #: The timer of its soft time limit.
        self.soft: Optional[asyncio.TimerHandle] = None


class Worker:
    """Reads frames, starts jobs as tasks or in threads, and sends their outcome."""

    def __init__(self, application: Application, loop: asyncio.AbstractEventLoop, descriptor: int,
                 concurrency: int) -> None:
        self._application = application
        os.set_blocking(descriptor, False)
        self.ended: asyncio.Future[int] = loop.create_future()
        self.outgoing: Outgoing = Outgoing(loop, descriptor, self._gone)
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._descriptor = descriptor
        self._threads = concurrent.futures.ThreadPoolExecutor(concurrency, thread_name_prefix="job")
        self._runs: dict[str, _Run] = {}
        self._closing = False
        self._lines: deque[bytes] = deque()
        self._unfinished: list[bytes] = []
        self._numbers = itertools.count(1)
        self._replies: dict[int, concurrent.futures.Future[dict[str, Any]]] = {}
        # With one job at a time nobody waits for the one that blocks.
        self._watch = None if concurrency == 1 else LoopWatch(loop, self.outgoing, descriptor,
                                                              lambda: list(self._runs.values()), self._learn)
        loop.add_reader(descriptor, self._on_readable)
        self._shared = SharedLoop(loop, self._on_term)
        # A job may turn the channel in place of the loop: what comes of it is not the job's.
        self._context = copy_context()
        self._guard = ForkGuard([descriptor])

    # Methods for jobs.

    def send(self, line: bytes) -> None:
        """Sends a frame, from any thread."""
        self.outgoing.send(line)

    def send_now(self, line: bytes) -> None:
        """Sends a frame at once, with all before it, without waiting for the loop's next turn."""
        self.outgoing.send_now(line)

    def call(self, verb: str, arguments: dict[str, Any]) -> Any:
        """Makes a call to the supervisor and waits. In the event loop's own thread all jobs wait with it."""
        reply = self._ask(verb, arguments)
        if threading.get_ident() == self._loop_thread:
            self._pump(reply)
        return answer(verb, reply.result())

    def stopped(self, job: Job, patience: float) -> Optional[float]:
        """For how many seconds the job was stopped; None if nobody answers in time."""
        reply = self._ask_stopped(job)
        if threading.get_ident() == self._loop_thread:
            self._pump(reply, time.monotonic() + patience)
            patience = 0
        try:
            return frames.stopped_in(reply.result(patience))
        except concurrent.futures.TimeoutError:
            return None

    def _ask_stopped(self, job: Job) -> concurrent.futures.Future[dict[str, Any]]:
        return self._ask("stopped", {"id": job.id, "fence": job.fence})

    async def call_async(self, verb: str, arguments: dict[str, Any]) -> Any:
        """Makes a call to the supervisor; other jobs go on meanwhile."""
        return answer(verb, await asyncio.wrap_future(self._ask(verb, arguments)))

    def _ask(self, verb: str, arguments: dict[str, Any]) -> concurrent.futures.Future[dict[str, Any]]:
        number = next(self._numbers)
        line = frames.frame("call", {"n": number, "verb": verb, "args": arguments})
        if len(line) > frames.LONGEST:
            raise PutError(f"failed to {verb}: {len(line)} bytes are more than the {frames.LONGEST} of a frame; "
                           "put fewer at a time, or put the name of a file")
        reply: concurrent.futures.Future[dict[str, Any]] = concurrent.futures.Future()
        self._replies[number] = reply
        self.send(line)
        return reply

    def _pump(self, reply: concurrent.futures.Future[dict[str, Any]], until: Optional[float] = None) -> None:
        """Reads the channel in place of the event loop, which waits for this call. Handles only replies."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        later: list[bytes] = []
        while not reply.done():
            self.outgoing.drain()
            if not poll.poll(None if until is None else max(0, round((until - time.monotonic()) * 1000))):
                break
            self._read()
            while self._lines:
                line = self._lines.popleft()
                frame = frames.decode(line)
                if "reply" in frame:
                    self._on_reply(frame["reply"])
                else:
                    later.append(line)
        self._lines.extendleft(reversed(later))
        self._loop.call_soon(self._handle_lines, context=self._context)

    # Handlers of the supervisor's frames.

    def _on_readable(self) -> None:
        self._read()
        self._handle_lines()

    def _read(self) -> None:
        try:
            chunk = os.read(self._descriptor, _LARGE_CHUNK if self._unfinished else _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            split_lines(chunk, self._unfinished, self._lines)
        elif self._runs:
            self._gone("it has closed the channel")
        else:
            self._stop_serving(0)

    def _handle_lines(self) -> None:
        while self._lines:
            frame = frames.decode(self._lines.popleft())
            if "run" in frame:
                self._start(Job(frame["run"]["job"], self))
            elif "unreadable" in frame:
                self.send(frames.refusal(frame["unreadable"]))
            elif "reply" in frame:
                self._on_reply(frame["reply"])
            elif "cancel" in frame:
                self._cancel(frame["cancel"]["job"], frame["cancel"].get("why", "canceled"))
            elif "ping" in frame:
                self.send(frames.frame("pong", {}))
            elif "shutdown" in frame:
                self._close()

    def _on_reply(self, reply: dict[str, Any]) -> None:
        waiting = self._replies.pop(reply["n"], None)
        # The task that made the call may have been canceled.
        if waiting is not None and waiting.set_running_or_notify_cancel():
            waiting.set_result(reply)

    def _cancel(self, job_id: str, why: str) -> None:
        run = self._runs.get(job_id)
        if run is not None:
            run.told = why
            self._stop(run, "cancel")

    def _stop(self, run: _Run, why: str) -> None:
        if run.stopped_by in (None, "soft"):
            run.stopped_by = why
        if why == "soft":
            run.job.canceled = True
        else:
            run.job.must_end()
        if run.task is not None:
            run.task.cancel()

    def _begin_soft(self, run: _Run, seconds: float) -> None:
        run.soft = self._loop.call_later(seconds, self._end_soft, run, context=self._context)

    def _end_soft(self, run: _Run) -> None:
        """The timer of its soft time limit has fired: the supervisor knows whether the process was stopped meanwhile."""
        if run.soft is not None and not run.job.ended:
            reply = self._ask_stopped(run.job)
            run.soft = self._loop.call_later(_PATIENCE, self._judge_soft, run, context=self._context)
            reply.add_done_callback(partial(_note_stopped, run.job))
            reply.add_done_callback(lambda _: self._judge_soft(run))

    def _learn(self) -> None:
        """This process has not run for a while: asks for how long each job was stopped."""
        for job in [run.job for run in self._runs.values()]:
            self._ask_stopped(job).add_done_callback(partial(_note_stopped, job))

    def _judge_soft(self, run: _Run) -> None:
        if run.soft is None or run.job.ended:
            return
        run.soft.cancel()
        left = (run.job.soft_time_limit or 0.0) - run.job.ran()
        if left > 0:
            self._begin_soft(run, left)
        else:
            run.soft = None
            self._stop(run, "soft")

    def _close(self) -> None:
        self._closing = True
        if not self._runs:
            self._stop_serving(0)

    def _on_term(self) -> None:
        why = "signal in company" if len(self._runs) > 1 else "signal"
        for run in list(self._runs.values()):
            self._stop(run, why)
        self._close()

    def _gone(self, why: str) -> None:
        """Ends the process: without the channel it can report no outcome."""
        try:
            os.write(2, f"taskvisor.worker: there is no way to the supervisor: {why}\n".encode())
        except OSError:
            pass
        # Threads that run jobs would block every other way to exit.
        os._exit(1)

    def _stop_serving(self, status: int) -> None:
        self._loop.remove_reader(self._descriptor)
        if not self.ended.done():
            self.ended.set_result(status)

    # Methods that run jobs.

    def _start(self, job: Job) -> None:
        function = self._application.find(job)
        if function is None:
            self.send(outcome.unknown_class(job))
            return
        run = _Run(job)
        self._runs[job.id] = run
        if self._watch is not None:
            self._watch.begin_job()
        if job.soft_time_limit is not None:
            self._begin_soft(run, job.soft_time_limit)
        token = of_task.set(job)
        try:
            if function.is_async:
                # Not by `create_task`: a job may have set a factory of its own.
                run.task = task = JobTask(self._in_task(run, function), loop=self._loop)
                task.job = job
            else:
                self._threads.submit(copy_context().run, self._in_thread, run, function)
        finally:
            of_task.reset(token)

    async def _in_task(self, run: _Run, function: Function) -> None:
        if run.task is not None:
            run.task.has_begun = True
        try:
            decimals.separate()
            args, kwargs = function.call_for(run.job.data)
            around.begin(run.job)
            result = await calling.call_async(function.function, args, kwargs)
            line = self._after(run, result)
        except BaseException as error:
            line = self._raised(run, error)
        if not self._guard.is_worker:
            leave_child(line)
        self._end(run, line)

    def _in_thread(self, run: _Run, function: Function) -> None:
        try:
            decimals.separate()
            args, kwargs = function.call_for(run.job.data)
            around.begin(run.job)
            result = calling.call(function.function, args, kwargs)
            line = self._after(run, result)
        except BaseException as error:
            line = self._raised(run, error)
        if not self._guard.is_worker:
            leave_child(line)
        run.line = line
        self._loop.call_soon_threadsafe(self._end, run, line)

    @staticmethod
    def _after(run: _Run, result: Any) -> bytes:
        if run.stopped_by == "cancel":
            # A function in a thread has gone on past its limit: it has failed all the same.
            around.fail(run.job, Worker._why(run))
            return outcome.canceled(run.job)
        # A cancel that comes while `after` runs would undo work that is done.
        around.end(run.job, result)
        return outcome.complete(run.job, result)

    def _raised(self, run: _Run, error: BaseException) -> bytes:
        is_cancel = isinstance(error, asyncio.CancelledError)
        task = run.task
        if run.stopped_by is None and task is not None and task.was_cut_off_by_others(error):
            return self._canceled_by_others(run.job, task.culprit, error)
        if run.stopped_by in ("cancel", "signal") and is_cancel:
            report_cancellation(self._why(run), error, sys.stderr)
        if is_cancel and run.stopped_by in ("signal", "soft"):
            error = self._why(run).with_traceback(error.__traceback__)
        # What a job raises that was told to end is no failure.
        told = self._why(run).with_traceback(error.__traceback__) if run.stopped_by == "cancel" else error
        around.fail(run.job, told)
        if run.stopped_by == "cancel":
            return outcome.canceled(run.job, None if is_cancel else error)
        if run.stopped_by == "signal in company" and is_cancel:
            # No outcome is sent. If another process sent the signal, the supervisor runs each job again, alone,
            # unspent.
            return b""
        if run.stopped_by == "signal" and is_cancel:
            return outcome.canceled(run.job, error)
        return outcome.ended_by(run.job, error)

    def _canceled_by_others(self, job: Job, culprit: Optional[Job], error: BaseException) -> bytes:
        """Neither the job nor the supervisor has canceled its task: that is no failure of the job."""
        who = "code that belongs to no job" if culprit is None else f"job {culprit.id} ({culprit.class_name})"
        told = Interrupted(f"its task was canceled by {who} in its worker").with_traceback(error.__traceback__)
        report_cancellation(told, error, sys.stderr)
        around.fail(job, told)
        if culprit is None:
            return outcome.canceled(job, told)
        text = f"job {culprit.id} ({culprit.class_name}) has canceled the task of job {job.id}, which runs again. {_ADVICE}"
        self.send(frames.frame("warning", {"text": text}) + frames.log(culprit.id, f"taskvisor.worker: {text}"))
        return outcome.given_back(job, _LATER, str(told), type(told).__name__)

    @staticmethod
    def _why(run: _Run) -> Interrupted:
        if run.stopped_by == "soft":
            return SoftTimeLimitExceeded(f"the soft time limit of {run.job.soft_time_limit:g} s is over")
        if run.stopped_by == "signal":
            return Interrupted("asked to end by SIGTERM")
        return (TimeLimitExceeded if run.told == "time limit" else Interrupted)(f"asked to end: {run.told}")

    def _end(self, run: _Run, line: bytes) -> None:
        streams.finish(run.job)
        if run.soft is not None:
            run.soft.cancel()
        run.job.ended = True
        self._shared.end_job(run.job)
        if line:
            self.send(line)
        del self._runs[run.job.id]
        if self._closing and not self._runs:
            self._stop_serving(0)


def _note_stopped(job: Job, reply: concurrent.futures.Future[dict[str, Any]]) -> None:
    job.stopped = max(job.stopped, frames.stopped_in(reply.result()))


def serve(application: Application, descriptor: int, concurrency: int, hello: bytes) -> int:
    """Runs jobs until the supervisor stops the worker. Returns the exit status."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    # With asyncio's own few threads, jobs would wait for those of other jobs, and so would each name lookup.
    loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(concurrency + _SPARE_THREADS,
                                                                    thread_name_prefix="asyncio"))
    worker = Worker(application, loop, descriptor, concurrency)
    worker.send(hello)
    while True:
        try:
            status = loop.run_until_complete(worker.ended)
            break
        except (SystemExit, KeyboardInterrupt):
            # asyncio passes them on when a task started by a job raises them. The other jobs go on.
            traceback.print_exc()
        except RuntimeError:
            # A thread of a job has stopped the loop.
            if loop.is_closed():
                raise
            traceback.print_exc()
    worker.outgoing.drain()
    _finish(loop)
    return status


def _finish(loop: asyncio.AbstractEventLoop) -> None:
    """Ends tasks that jobs have left in the loop, as asyncio.run does."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=5))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    sys.stdout.flush()
