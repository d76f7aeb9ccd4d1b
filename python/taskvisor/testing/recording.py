"""`recording()`: what is put is recorded, with its checks, and nothing runs."""

from __future__ import annotations

import json
import threading
import time

from ..client import outside, stand_in
from ..client.job_info import JobInfo
from ..errors import NoSuchJob, PutError
from ..protocol import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from types import TracebackType
    from typing import Any, Optional, TypeVar

    from ..client.job_function import JobFunction

    Own = TypeVar("Own", bound="Recording")

#: The states in which jobs end.
ENDED = ("complete", "failed", "held", "canceled")


class Recording:
    """The jobs that were put in a test, in their order; nothing runs them. A context manager."""

    def __init__(self) -> None:
        self._records: dict[str, dict[str, Any]] = {}
        self._lock = threading.Condition()
        self._before: Optional[stand_in.StandIn] = None

    def __enter__(self: Own) -> Own:
        self._before = stand_in.current.one
        stand_in.current.one = self
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        stand_in.current.one = self._before

    @property
    def jobs(self) -> list[JobInfo]:
        """All jobs that were put, in their order."""
        return [JobInfo(record) for record in self._records.values()]

    def of(self, function: JobFunction[..., Any]) -> list[JobInfo]:
        """The jobs of this function."""
        return [job for job in self.jobs if job.class_name == function.class_name]

    def assert_put(self, function: JobFunction[..., Any], *args: Any, **kwargs: Any) -> JobInfo:
        """Fails unless the function was put with these arguments; returns that job."""
        wanted = through_json(function.prepare(*args, **kwargs).fields()["data"])
        put = self.of(function)
        for job in put:
            if job.record["data"] == wanted:
                return job
        others = "".join(f"\n  {json.dumps(job.record['data'])}" for job in put) or " never"
        raise AssertionError(f"{function.class_name} was not put with {json.dumps(wanted)}; it was put{others}")

    def assert_nothing_put(self) -> None:
        """Fails if any job was put."""
        if self._records:
            raise AssertionError("jobs were put: " + ", ".join(map(repr, self.jobs)))

    def put(self, jobs: list[dict[str, Any]]) -> list[str]:
        """Takes the place of the supervisor: queues jobs, all or none."""
        with self._lock:
            return [record["id"] for record in self._take(jobs)]

    def ends(self, jobs: Iterable[str], timeout: Optional[float] = None) -> Iterator[tuple[str, bytes]]:
        """Takes the place of the supervisor: the ends of jobs."""
        for job in jobs:
            record = self._records.get(job)
            if record is None:
                end = {"job": job, "error": f"no job has the id {job!r}", "code": 404}
            elif record["state"] in ENDED:
                end = {"job": job, "state": record["state"], "record": record}
            else:
                raise TimeoutError(f"job {job} is {record['state']}, and nothing runs it here: {self._why(record)}")
            yield job, json.dumps(end).encode()

    async def aends(self, jobs: Iterable[str], timeout: Optional[float] = None) -> AsyncIterator[tuple[str, bytes]]:
        """As `ends`."""
        for end in self.ends(jobs, timeout):
            yield end

    def ask(self, method: str, route: str, value: Any, timeout: Optional[float] = None) -> Any:
        """Takes the place of the supervisor: looks at jobs, and cancels them."""
        if method == "GET" and route.startswith("/v1/jobs/"):
            from urllib.parse import unquote

            job = unquote(route[len("/v1/jobs/"):])
            if job not in self._records:
                raise NoSuchJob(f"no job has the id {job!r}", 404)
            return json.loads(json.dumps(self._records[job]))
        if (method, route) == ("POST", "/v1/cancel"):
            return [self._cancel(job) for job in value["jobs"]]
        raise NotImplementedError(f"{method} {route} has no stand-in: use taskvisor.testing.Server")

    def logs(self, job: str, query: dict[str, Any]) -> str:
        """None: it goes where the output of this process goes."""
        raise NotImplementedError("what a job prints in this process goes where it always goes: for the output of jobs use "
                                  "taskvisor.testing.Server")

    def _why(self, record: dict[str, Any]) -> str:
        return "puts are only recorded"

    def _cancel(self, job: str) -> dict[str, Any]:
        record = self._records.get(job)
        if record is None:
            return {"job": job, "refused": {"why": "no_job"}}
        if record["state"] in ENDED:
            return {"job": job, "refused": {"why": "state", "state": record["state"]}}
        record["state"] = "canceled"
        return {"job": job, "state": "canceled"}

    def _take(self, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The records of new jobs; those of jobs whose id is known already, where they say so."""
        fresh: dict[str, dict[str, Any]] = {}
        taken = []
        batch = {job.get("id") for job in jobs}
        for job in jobs:
            id = job.get("id") or outside.new_id()
            known = self._records.get(id) or fresh.get(id)
            if known is not None and job.get("exists") != "skip":
                raise PutError(f"failed to put {id}: the job {id!r} exists already")
            for need in job.get("depends", ()):
                if need not in self._records and need not in batch:
                    raise PutError(f"failed to put {id}: there is no job {need!r} for it to depend on")
            if known is None:
                known = fresh[id] = {**through_json(job), "id": id, "attempt": 0, "history": [],
                                     "put_at_ms": int(time.time() * 1000), "state": self._first_state(job)}
                known.setdefault("priority", 0)
                known.setdefault("tags", [])
            taken.append(known)
        self._records.update(fresh)
        return taken

    def _first_state(self, job: dict[str, Any]) -> str:
        return "depends" if job.get("depends") else "delayed" if job.get("delay") else "waiting"


def through_json(value: Any) -> Any:
    """The value as a worker gets it.

    >>> through_json({"a": (1, 2)})
    {'a': [1, 2]}
    """
    return json.loads(frames.strict_json(value))


def recording() -> Recording:
    """Within it, puts are recorded and nothing runs.

        with recording() as jobs:
            signup("a@b.c")
        jobs.assert_put(send, "a@b.c")
    """
    return Recording()
