"""The id of a job that was put: a text, with which its result is waited for, and the job looked at and canceled.

What speaks to the supervisor is imported when it is needed: a worker that only runs jobs needs no socket.
"""

from __future__ import annotations

import json
import time

from ..errors import NoSuchJob, SupervisorError
from ..protocol.http import quoted
from . import running_job
from .job_info import JobCanceled, JobFailed, JobInfo, ResultNotKept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generic, Optional, TypeVar

    from .stand_in import StandIn

    R = TypeVar("R")
else:
    class Generic:
        """The parameters in brackets are for type checkers only."""

        def __class_getitem__(cls, _parameters):
            return cls

    R = None


class JobId(str, Generic[R]):
    """The id of a job: a text, as any other. What it does goes where the job was put by a client, else to the supervisor
    that listens here.

    >>> JobId("order-7") == "order-7", JobId("order-7")
    (True, 'order-7')
    """

    #: The line that tells its end, if that is known.
    _end: Optional[bytes] = None
    #: Where the job was put, if not by this process's own settings. A copy by pickle has it not.
    _place: Optional[StandIn] = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),)

    def result(self, timeout: Optional[float] = None, *, hold_slot: bool = False) -> R:
        """Waits until the job has ended, and returns what it has returned.

        Raises `JobFailed` if it has failed or is held, its subclass `JobCanceled` if it was canceled, `ResultNotKept` if
        its result or its record is gone, `NoSuchJob` if there is no such job, TimeoutError after `timeout` seconds. It
        goes on over a stop and a start of the supervisor; one that stays away for longer than the patience of
        `configure` is a `SupervisorError`.

        Inside a job it is refused, as the job would hold its slot while it waits, unless `hold_slot` says to.
        """
        started = time.monotonic()
        end = self._ended(timeout, hold_slot)
        found: R = value(with_record(end, seconds_left(timeout, started), self._place))
        return found

    async def aresult(self, timeout: Optional[float] = None, *, hold_slot: bool = False) -> R:
        """As `result`; other tasks of the event loop go on until the job has ended."""
        started = time.monotonic()
        end = await self._aended(timeout, hold_slot)
        found: R = value(await awith_record(end, seconds_left(timeout, started), self._place))
        return found

    def wait(self, timeout: Optional[float] = None, *, hold_slot: bool = False) -> str:
        """Waits until the job has ended, and returns its state: complete, failed, held or canceled."""
        return str(self._ended(timeout, hold_slot)["state"])

    async def awaited(self, timeout: Optional[float] = None, *, hold_slot: bool = False) -> str:
        """As `wait`; other tasks of the event loop go on until the job has ended."""
        return str((await self._aended(timeout, hold_slot))["state"])

    def cancel(self, wait: bool = True, *, reason: Optional[str] = None, timeout: Optional[float] = None) -> str:
        """Cancels the job, and returns the state that it then has: by default once all its processes have ended.

        A job that has ended already is left as it is.
        """
        order = {"jobs": [str(self)]} if reason is None else {"jobs": [str(self)], "reason": reason}
        said = asked(self._place, "POST", "/v1/cancel", order, timeout)[0]
        refused = said.get("refused")
        if refused is None:
            return self.wait(timeout, hold_slot=True) if wait else str(said["state"])
        if refused["why"] == "state":
            return str(refused["state"])
        if refused["why"] == "no_job":
            raise NoSuchJob(f"no job has the id {str(self)!r}", 404)
        names = ", ".join(refused.get("jobs", ()))
        raise SupervisorError(f"failed to cancel {self}: others depend on it: {names}; cancel them first", 409)

    def info(self) -> JobInfo:
        """The job as it is now."""
        return JobInfo(asked(self._place, "GET", f"/v1/jobs/{quoted(self)}"))

    def logs(self, *, tail: Optional[int] = None, stream: Optional[str] = None, attempt: Optional[int] = None) -> str:
        """What the job has printed and logged; or its last lines, or what went to `stdout` or `stderr`, or in one attempt.

        The supervisor is asked for it; while none runs, the program ``taskvisor job logs`` reads the files.
        """
        from . import output

        return output.logs(self, self._place, {"tail": tail, "stream": stream, "attempt": attempt})

    def _ended(self, timeout: Optional[float], hold_slot: bool) -> dict[str, Any]:
        if self._end is None:
            from . import waiting

            may_wait(hold_slot)
            for _, line in waiting.ends([self], timeout, self._place):
                return told(self, line)
        return told(self, self._end or b"{}")

    async def _aended(self, timeout: Optional[float], hold_slot: bool) -> dict[str, Any]:
        if self._end is None:
            from . import waiting

            may_wait(hold_slot)
            async for _, line in waiting.aends([self], timeout, self._place):
                return told(self, line)
        return told(self, self._end or b"{}")


def may_wait(hold_slot: bool) -> None:
    """Refuses to wait within a job."""
    running = running_job.running()
    if running is not None and not hold_slot:
        raise RuntimeError(f"the job {running.id} would hold its slot while it waits for another, and jobs that all wait "
                           "for others run no more: put what comes after with depends=[...], return Advance(...), or say "
                           "hold_slot=True")


def told(job: str, line: bytes) -> dict[str, Any]:
    """The end of a job, as the supervisor tells it; raises why it cannot."""
    end: dict[str, Any] = json.loads(line)
    if "error" in end:
        if end.get("code") == 404:
            raise NoSuchJob(end["error"], 404)
        raise SupervisorError(f"failed to wait for {job}: {end['error']}", end.get("code", 0))
    return end


def lacks_record(end: dict[str, Any]) -> bool:
    """Whether nobody can say yet what the job has returned."""
    return end["state"] == "complete" and end.get("record") is None


def asked(place: Optional[StandIn], method: str, route: str, value: Any = None, timeout: Optional[float] = None) -> Any:
    """The answer of the API: of the supervisor, or of what takes its place."""
    if place is not None:
        return place.ask(method, route, value, timeout)
    from . import asking

    return asking.ask(method, route, value, timeout=timeout)


def with_record(end: dict[str, Any], timeout: Optional[float] = None, place: Optional[StandIn] = None) -> dict[str, Any]:
    """The end with the record of the job. It is missing if the broker was away at that moment, or if it is removed."""
    if not lacks_record(end):
        return end
    job = end["job"]
    try:
        record = asked(place, "GET", f"/v1/jobs/{quoted(job)}", None, timeout)
    except NoSuchJob:
        raise ResultNotKept(f"job {job} is complete, but has no result: its record is gone") from None
    if record["state"] != "complete":
        raise ResultNotKept(f"job {job} was complete, but its result is gone: it is {record['state']} again")
    return {**end, "record": record}


async def awith_record(end: dict[str, Any], timeout: Optional[float] = None,
                       place: Optional[StandIn] = None) -> dict[str, Any]:
    """As `with_record`; other tasks of the event loop go on meanwhile."""
    if not lacks_record(end):
        return end
    from .threads import in_thread

    found: dict[str, Any] = await in_thread(with_record, end, timeout, place)
    return found


def seconds_left(timeout: Optional[float], started: float) -> Optional[float]:
    """What is left of the time for a call that started then."""
    return None if timeout is None else max(0.1, started + timeout - time.monotonic())


def value(end: dict[str, Any]) -> Any:
    """What the job has returned; raises how it has ended otherwise."""
    info = JobInfo(end.get("record") or {"id": end["job"], "state": end["state"]})
    if end["state"] == "complete":
        return info.result
    raise (JobCanceled if end["state"] == "canceled" else JobFailed)(info)
