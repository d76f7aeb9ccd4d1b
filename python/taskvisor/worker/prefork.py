"""The loop of mode prefork, and of the children of mode fork: one job at a time in the main thread.

It never says `done` before the job's output is flushed and its surroundings are restored.
"""

from __future__ import annotations

import os
import sys
from contextvars import copy_context
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time

from ..client import around, calling, running_job
from ..client.running_job import Job
from ..errors import Interrupted, SoftTimeLimitExceeded, TimeLimitExceeded
from ..protocol.frames import decode, frame, refusal
from . import decimals, limits, outcome, surroundings
from .channel import Channel, Closed, EndOfFile
from .fork_guard import ForkGuard, leave_child, leave_worker
from .left_threads import LeftThreads
from .outputs import Outputs
from .place import report_cancellation
from .process import give_up, print_at_once
from .termination import Termination

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from .application import Application, Function


def prepare(application: Application) -> None:
    """Loads what jobs of the application need, before the first of them has come."""
    if application.has_coroutines():
        from . import own_loop as _


class Worker:
    """Runs jobs as they come, in the main thread."""

    def __init__(self, application: Application, descriptor: int, termination: Termination,
                 jobs: Optional[int] = None) -> None:
        self._application = application
        self._jobs = jobs
        self.termination = termination
        self.channel: Channel = Channel(descriptor, termination)
        # A process for one job has no next job for which to restore anything.
        self._surroundings = surroundings.note() if jobs is None else None
        self._left_threads = LeftThreads()
        self._cpu_of_children = cpu_of_children()
        self._outputs = Outputs(for_many_jobs=jobs is None)
        # In a process for one job, no code of the application runs before the job has come.
        self._guard: Optional[ForkGuard] = None if jobs is not None else self._guarded()

    def serve(self) -> int:
        """Takes jobs until the supervisor stops the worker, or up to its number of jobs. Returns the exit status."""
        jobs = self._jobs
        try:
            while jobs is None or jobs > 0:
                frames_of_line = decode(self.channel.next_line())
                if "run" in frames_of_line:
                    self._run(frames_of_line["run"]["job"])
                    jobs = None if jobs is None else jobs - 1
                elif "unreadable" in frames_of_line:
                    self.channel.write(refusal(frames_of_line["unreadable"]))
                    jobs = None if jobs is None else jobs - 1
                elif "ping" in frames_of_line:
                    self.channel.write(frame("pong", {}))
                elif "shutdown" in frames_of_line:
                    return 0
        except EndOfFile:
            return 0
        except Closed as error:
            give_up(str(error))
        return 0

    def _run(self, fields: dict[str, Any]) -> None:
        guard = self._guard
        if guard is None:
            guard = self._guard = self._guarded()
            self.channel.renew()
        job = Job(fields, self.channel)
        function = self._find(job)
        if function is None:
            self.channel.write(outcome.unknown_class(job))
            return
        if self._surroundings is not None:
            self._left_threads.begin_job()
            limits.begin_job()
            before = process_time() + self._cpu_of_children
        # Context variables that the job sets are dropped with its context.
        done = copy_context().run(self._outcome, job, function)
        if not guard.is_worker:
            leave_child(done)
        # All of this comes before `done` is sent: after that the next job may be on its way.
        changes = None
        if self._surroundings is not None:
            changes = self._surroundings.restore(job.cwd is not None)
            # A process that ends between two jobs is counted for the second one.
            self._cpu_of_children = cpu_of_children()
            cpu = process_time() + self._cpu_of_children - before
            done = outcome.with_traces(done, cpu, self._left_threads.end_job(job))
        changed = self._outputs.settle()
        if changes is not None and (changed or changes.names):
            changes.names[:0] = changed
            print_at_once(changes.text(job.id))
        self.channel.check()
        self.channel.write(done)
        if changes is not None:
            interrupted = self.termination.raised is not None and self.termination.requested
            if interrupted or changes.kept:
                leave_worker()
            self.termination.listen()

    def _find(self, job: Job) -> Optional[Function]:
        loaded = len(sys.modules)
        function = self._application.find(job)
        if self._surroundings is not None and len(sys.modules) != loaded:
            # What a module changes when it is loaded belongs to the application, not to the job that needs it first.
            self._surroundings.adopt()
        return function

    def _guarded(self) -> ForkGuard:
        return ForkGuard([self.channel.descriptor, *self._outputs.spares()])

    def _outcome(self, job: Job, function: Function) -> bytes:
        running_job.of_process.job = job
        try:
            try:
                decimals.separate()
                if job.cwd is not None:
                    os.chdir(job.cwd)
                args, kwargs = function.call_for(job.data)
                if function.is_async:
                    from . import own_loop

                self.termination.begin_job(job)
                around.begin(job)
                if function.is_async:
                    result = own_loop.run(self.termination, function.function, args, kwargs)
                else:
                    result = calling.call(function.function, args, kwargs)
                # A limit or SIGTERM that comes from here on would undo work that is done.
                self.termination.end_job()
                late = self.termination.raised
                if isinstance(late, TimeLimitExceeded):
                    # It has gone on, and has failed all the same.
                    around.fail(job, late)
                else:
                    around.end(job, result)
            finally:
                self.termination.end_job()
        except BaseException as error:
            return self._raised(job, error)
        finally:
            job.ended = True
            running_job.of_process.job = None
        return outcome.complete(job, result)

    def _raised(self, job: Job, error: BaseException) -> bytes:
        raised = self.termination.raised
        if raised is not None and _is_cancellation(error):
            if not isinstance(raised, SoftTimeLimitExceeded):
                report_cancellation(raised, error, sys.stderr)
            error = raised.with_traceback(error.__traceback__)
        around.fail(job, error)
        if self._jobs is not None:
            around.flush()
        # If the supervisor has not asked, somebody else has: that is no fault of the job.
        is_interrupted = error is raised and type(raised) is Interrupted
        return outcome.canceled(job, error) if is_interrupted else outcome.ended_by(job, error)


def cpu_of_children() -> float:
    """Seconds of CPU time that processes have used which this one has started, and which have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _is_cancellation(error: BaseException) -> bool:
    """Whether the error is a task's cancellation. Without asyncio there is no task."""
    asyncio: Any = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)
