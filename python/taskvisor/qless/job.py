"""The job that a method of qless gets. The job itself says how it ends; that takes effect when its method returns."""

from __future__ import annotations

import json
import sys
import traceback

from ..checks import seconds
from ..client.advance import Advance
from ..client.running_job import Job as Run
from ..errors import Fail, Retry, Snooze
from ..protocol import frames
from ..worker import outcome
from ..worker.outcome import Ending
from .base import BaseJob
from .client import Client
from .exceptions import LostLockException, QlessException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Optional, Union


class Job(BaseJob):
    """The running job. How it says it ends takes effect when its method returns."""

    def __init__(self, run: Run) -> None:
        super().__init__(Client(run), run.id, run.class_name, run.queue, run.data, run.priority, list(run.tags))
        self._run = run
        self._kept = _text(run.data)
        self._ending: Union[Ending, Advance, None] = None
        self._state = "running"

    @property
    def state(self) -> str:
        """``running``, until it has said how it ends."""
        return self._state

    @property
    def sandbox(self) -> str:
        """The empty directory in which it works."""
        if self._run.cwd is None:
            raise AttributeError("job.sandbox: the pool gives its jobs no directories; start it with --sandbox "
                                 "(`sandbox: true` in its settings)")
        return self._run.cwd

    @property
    def original_retries(self) -> Optional[int]:
        """Tries after the first one."""
        return self._run.retries

    @property
    def retries_left(self) -> Optional[int]:
        """Tries that remain after this one."""
        return None if self._run.retries is None else self._run.retries - (self._run.attempt - 1)

    # How the job ends.

    def complete(self, nextq: Optional[str] = None, delay: Optional[float] = None,
                 depends: Optional[Sequence[str]] = None) -> str:
        """The job is done; with `nextq` it goes on in that queue, with its present data."""
        self._must_run("Complete")
        if nextq is None:
            for name, given in (("delay", delay), ("depends", depends)):
                if given:
                    raise QlessException(f'Complete(): "{name}" cannot be used without a "next".')
            self._keep_data()
            return self._end("complete", Ending("complete"))
        return self._go_on(nextq, delay, depends)

    def move(self, queue: str, delay: Optional[float] = 0, depends: Optional[Sequence[str]] = None) -> str:
        """The job goes on in another queue, with its present data."""
        self._must_run("Move")
        self._go_on(queue, delay, depends)
        return self.jid

    requeue = move

    def fail(self, group: str, message: str) -> str:
        """The job has failed for good, and is counted in the group."""
        self._must_run("Fail")
        self._keep_data()
        self._end("failed", _failed(str(group), str(message)))
        return self.jid

    def retry(self, delay: float = 0, group: Optional[str] = None, message: Optional[str] = None) -> Optional[int]:
        """It is tried again after `delay` seconds, with the data it had at its start. Returns how many tries remain; below
        0 it has failed."""
        self._must_run("Retry")
        try:
            after = seconds("delay", delay)
        except (TypeError, ValueError) as error:
            raise QlessException(f"Retry(): {error}") from None
        left = None if self.retries_left is None else self.retries_left - 1
        told = None if group is None or message is None else {"group": str(group), "message": str(message)}
        if left is not None and left < 0:
            spent = {"group": f"failed-retries-{self.queue_name}",
                     "message": f'Job exhausted retries in queue "{self.queue_name}"'}
            self._end("failed", _failed(**(told or spent)))
        else:
            self._end("scheduled" if after else "waiting", Ending("retry", after=after, error=told))
        return left

    def heartbeat(self) -> float:
        """Stores the present data, and returns until when the job may run. The supervisor renews that by itself."""
        self._must_run("Heartbeat")
        self._record = None
        record = self.record()
        if record["state"] != "running" or record["fence"] != self._run.fence:
            raise LostLockException(self.jid)
        self._keep_data()
        return self.expires_at

    def log(self, message: str, **data: Any) -> None:
        """Adds a line to the log of the job."""
        text = f"{message} {json.dumps(data, default=repr)}" if data else str(message)
        runtime = self._run.runtime
        if runtime is not None:
            runtime.send(frames.frame("log", {"job": self.jid, "text": text}))

    # For `classes`, which calls the job's method.

    def returned(self) -> Union[Ending, Advance]:
        """Its method has returned: how the job ends."""
        if self._ending is None:
            print(f"taskvisor.qless: the method of job {self.jid} returned without complete(), fail() or retry(): it "
                  "is taken as complete", file=sys.stderr)
            self.complete()
        assert self._ending is not None
        return self._ending

    def raised(self, error: BaseException) -> Union[Ending, Advance]:
        """Its method has raised: the job has failed, unless it has said before how it ends."""
        if self._ending is not None:
            print(f"taskvisor.qless: job {self.jid} is {self._state} by its own word, and then raised:",
                  file=sys.stderr)
            traceback.print_exception(type(error), error, error.__traceback__)
            return self._ending
        if isinstance(error, (Fail, Retry, Snooze)):
            raise error
        try:
            self._keep_data()
        except Exception as second:
            print(f"taskvisor.qless: the data of job {self.jid} is not kept: {second}", file=sys.stderr)
        return self.failed_by(type(error).__name__, error)

    def failed_by(self, suffix: str, error: BaseException) -> Ending:
        """The failure for an error, in the group that qless-py gives it."""
        told = {**outcome.describe(error), "group": f"{self.queue_name}-{suffix}"}
        if error.__traceback__ is None:
            del told["trace"]
        return Ending("failed_for_good", error=told)

    def _must_run(self, what: str) -> None:
        if self._state != "running":
            raise QlessException(f"{what}(): Job {self.jid} is not currently running: {self._state}")

    def _go_on(self, queue: str, delay: Optional[float], depends: Optional[Sequence[str]]) -> str:
        try:
            advance = Advance(queue, delay=delay or None, depends=depends or None)
        except (TypeError, ValueError) as error:
            raise QlessException(f"failed to move job {self.jid} to queue {queue!r}: {error}") from None
        self._keep_data()
        return self._end("depends" if advance.depends else "scheduled" if advance.delay else "waiting", advance)

    def _end(self, state: str, ending: Union[Ending, Advance]) -> str:
        self._state, self._ending = state, ending
        return state

    def _keep_data(self) -> None:
        """Stores the data if the job has changed it, for its next attempt or queue."""
        text = _text(self.data)
        if text == self._kept:
            return
        frames.strict_json(self.data)
        self.client.ask("data", id=self.jid, fence=self._run.fence, data=self.data)
        self._kept = text


def _failed(group: str, message: str) -> Ending:
    return Ending("failed_for_good", error={"group": group, "message": message[:outcome.LONGEST_MESSAGE]})


def _text(data: Any) -> Optional[str]:
    """The data as text to compare, or None if it is not JSON."""
    try:
        return json.dumps(data)
    except (TypeError, ValueError, RecursionError):
        return None
