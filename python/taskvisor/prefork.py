"""The worker with one job at a time, for the modes prefork and fork."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, Callable, Optional

from . import context, outcome, registry
from .channel import Channel, Closed, EndOfFile, give_up
from .context import Job
from .fork_guard import ForkGuard, leave_child
from .frames import frame
from .outputs import Outputs
from .registry import JobFunction
from .termination import Termination


class Worker:
    """Runs jobs as they come, in the main thread."""

    def __init__(self, descriptor: int, termination: Termination, jobs: Optional[int] = None) -> None:
        self._jobs = jobs
        self.termination = termination
        self.channel = Channel(descriptor, termination)
        self._directory: Optional[str] = None
        self._outputs = Outputs(for_many_jobs=jobs is None)
        self._guard = ForkGuard([descriptor, *self._outputs.spares()])

    def serve(self) -> int:
        """Takes jobs until told to stop, or as many as it is for. Returns the exit status."""
        jobs = self._jobs
        try:
            while jobs is None or jobs > 0:
                frames_of_line = json.loads(self.channel.next_line())
                if "run" in frames_of_line:
                    self._run(frames_of_line["run"]["job"])
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
        job = Job(fields, self.channel)
        function = registry.functions.get(job.class_name)
        if function is None:
            self.channel.write(outcome.unknown_class(job))
            return
        done = self._outcome(job, function)
        if not self._guard.is_worker:
            leave_child(done)
        # All of this comes before the word: once it is said, the next job may be on its way.
        if job.cwd is not None and self._directory is not None:
            os.chdir(self._directory)
        self._outputs.settle()
        self.channel.check()
        self.channel.write(done)
        self.termination.listen()

    def _outcome(self, job: Job, function: JobFunction[..., Any]) -> bytes:
        context.of_process.job = job
        try:
            try:
                if job.cwd is not None:
                    self._enter(job.cwd)
                call = function.call_for(job.data)
                self.termination.begin_job(job)
                if function.is_async:
                    result = asyncio.run(self._in_loop(function.function, call.args, call.kwargs))
                else:
                    result = function.function(*call.args, **call.kwargs)
            finally:
                self.termination.end_job()
        except asyncio.CancelledError as error:
            raised = self.termination.raised
            return outcome.ended_by(job, raised.with_traceback(error.__traceback__) if raised else error)
        except BaseException as error:
            return outcome.ended_by(job, error)
        finally:
            job.ended = True
            context.of_process.job = None
        return outcome.complete(job, result)

    async def _in_loop(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        # A signal must end the loop's sleep, and cancel the task rather than raise inside the loop.
        loop.add_reader(self.termination.wake, self.termination.drain)
        # The loop is closed when the signal comes in the job's last moment.
        self.termination.interrupt_by(lambda: loop.is_closed() or loop.call_soon_threadsafe(task.cancel))
        return await function(*args, **kwargs)

    def _enter(self, directory: str) -> None:
        if self._directory is None:
            self._directory = os.getcwd()
        os.chdir(directory)
