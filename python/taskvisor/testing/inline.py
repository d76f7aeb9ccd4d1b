"""`inline()`: a put runs the job at once, in this process, and ends it by the rules of a worker.

The worker's own code judges a result or an exception, and the job's data and result pass through JSON. What needs
processes is missing: limits of time and memory, and the end of a process.
"""

from __future__ import annotations

import asyncio
import json
import threading
from contextvars import copy_context

from ..client import around, calling, registry, running_job
from ..client.job_info import JobFailed, JobInfo
from ..client.running_job import Job
from ..errors import PutError
from ..worker import outcome
from .recording import Recording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Optional

#: Retries of a job whose put and function do not say, as of a pool of workers.
_RETRIES = 5
#: A job that says `Retry` or `Snooze` so often is left as it is.
_MOST_AGAIN = 100


class Inline(Recording):
    """Runs what is put, at once. A context manager; made by `inline`."""

    def __init__(self, raise_failures: bool = False) -> None:
        super().__init__()
        self._raise = raise_failures
        self._queue: list[dict[str, Any]] = []
        self._runner: Optional[threading.Thread] = None

    def put(self, jobs: list[dict[str, Any]]) -> list[str]:
        """Takes the place of the supervisor: queues jobs, all or none, and runs them unless one of them puts these."""
        with self._lock:
            taken = self._take(jobs)
            self._queue += [record for record in taken if record["state"] == self._first_state(record)
                            and not any(record is other for other in self._queue)]
            ids = [record["id"] for record in taken]
            if self._runner is not None:
                return ids
            self._runner = threading.current_thread()
        try:
            while self._run_next():
                pass
        except BaseException:
            self._stop_running()
            raise
        return ids

    def ends(self, jobs: Iterable[str], timeout: Optional[float] = None) -> Iterator[tuple[str, bytes]]:
        """Takes the place of the supervisor: the ends of jobs. A thread beside that which runs them waits for it."""
        with self._lock:
            while self._runner is not None and self._runner is not threading.current_thread():
                self._lock.wait()
        yield from super().ends(jobs)

    def _first_state(self, job: dict[str, Any]) -> str:
        return "depends" if job.get("depends") else "waiting"

    def _why(self, record: dict[str, Any]) -> str:
        if record["state"] == "depends":
            return "what it depends on is not complete"
        if record["class"] not in registry.functions:
            return f"no module that is imported here has the class {record['class']!r}"
        if self._runner is not None:
            return "it begins when the job that has put it is over"
        return f"it has said Retry or Snooze {_MOST_AGAIN} times"

    def _run_next(self) -> bool:
        with self._lock:
            ready = [record for record in self._queue if self._is_ready(record)]
            if not ready:
                self._stop_running()
                return False
            record = max(ready, key=lambda record: record["priority"])
            self._queue = [other for other in self._queue if other is not record]
        self._run(record)
        return True

    def _stop_running(self) -> None:
        with self._lock:
            self._runner = None
            self._lock.notify_all()

    def _is_ready(self, record: dict[str, Any]) -> bool:
        needs = (self._records[job]["state"] for job in record.get("depends", ()))
        return record["class"] in registry.functions and record["state"] != "canceled" \
            and all(state == "complete" for state in needs)

    def _run(self, record: dict[str, Any]) -> None:
        function = registry.functions[record["class"]]
        retries = record.get("retries", function.settings.get("retries", _RETRIES))
        again, record["attempt"] = 0, 1
        while True:
            record["state"] = "running"
            job = Job({**function.settings, **record, "fence": 1, "marked": True}, _Runtime(self, record))
            done, error = copy_context().run(self._attempt, job, function)
            how = done["outcome"]
            if "error" in done:
                record["failure"] = done["error"]
            if how == "complete" and "next" in done:
                record["history"].append({"kind": "advanced", "from_queue": record["queue"],
                                          "to_queue": done["next"]["queue"], "result": done.get("result")})
                record.update(queue=done["next"]["queue"], depends=done["next"].get("depends") or [], state="waiting")
                with self._lock:
                    self._queue.append(record)
                return
            if how == "complete":
                record.pop("failure", None)
                record.update(state="complete", result=done.get("result"))
                return
            if how in ("snooze", "retry"):
                again += 1
                if again == _MOST_AGAIN:
                    record["state"] = "delayed"
                    return
                record["attempt"] += how == "retry"
                continue
            if how == "failed" and record["attempt"] <= retries:
                record["attempt"] += 1
                continue
            record["state"] = "canceled" if how == "canceled" else "failed"
            if self._raise:
                raise JobFailed(JobInfo(record)) from error
            return

    def _attempt(self, job: Job, function: registry.Registered) -> tuple[dict[str, Any], Any]:
        running_job.of_task.set(job)
        error = None
        try:
            args, kwargs = function.call_for(job.data)
            around.begin(job)
            result = calling.call(function.function, args, kwargs)
            if function.is_async:
                result = _run_coroutine(result)
            around.end(job, result)
            line = outcome.complete(job, result)
        except (Exception, SystemExit) as caught:
            error = caught if isinstance(caught, Exception) else None
            around.fail(job, caught)
            line = outcome.ended_by(job, caught)
        finally:
            job.ended = True
        done: dict[str, Any] = json.loads(line)["done"]
        return done, error


def _run_coroutine(coroutine: Any) -> Any:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    # The test itself runs in an event loop, and a thread has one loop only.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, asyncio.run, coroutine).result()


class _Runtime:
    """What a job here uses of its worker."""

    def __init__(self, inline: Inline, record: dict[str, Any]) -> None:
        self._inline = inline
        self._record = record

    def send(self, line: bytes) -> None:
        """Keeps the progress of the job."""
        for name, fields in json.loads(line).items():
            if name == "progress":
                self._record["progress"] = {name: value for name, value in fields.items() if name != "job"}

    send_now = send

    def call(self, verb: str, arguments: dict[str, Any]) -> Any:
        """Puts jobs, and shows the one that runs."""
        if verb == "job" and arguments["id"] == self._record["id"]:
            return self._record
        if verb != "put":
            raise PutError(f"failed to {verb}: inline() has no stand-in for it")
        return {"ids": self._inline.put(arguments["jobs"])}

    def stopped(self, job: Job, patience: float) -> float:
        """0 s: there is no supervisor that could know."""
        return 0.0

    async def call_async(self, verb: str, arguments: dict[str, Any]) -> Any:
        """As `call`."""
        return self.call(verb, arguments)


def inline(*, raise_failures: bool = False) -> Inline:
    """Within it, a put runs the job at once, in this process, and everything that the job puts.

    Delays, and the waits before retries, are left out. A job that fails is tried again as it says, and then raises in
    `result`; with `raise_failures` the put raises `JobFailed`, whose cause is the exception.

        with inline():
            assert add.put(1, 2).result() == 3
    """
    return Inline(raise_failures)
