"""Jobs in a Redis, in place of a supervisor: puts, ends, and the few questions that handles of jobs ask."""

from __future__ import annotations

import json
import os
import queue
import time

from ..client import asking, notes, outside
from ..errors import NoSuchJob, PutError, SupervisorError
from ..protocol import frames
from . import fleet, records
from .ear import Ear
from .link import Link, Refused, refusal, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
    from typing import Any, Callable, Optional

    _Left = Callable[[], Optional[float]]

#: Most jobs of one put, the most data of one, and the most tags, as the supervisor has them.
_MOST_JOBS, _MOST_DATA, _MOST_TAGS = 50_000, 12_517_376, 100
#: How many jobs are looked at in one call.
_LOOKS = 500
#: All are looked at again after so long without a word.
_SILENCE_SECONDS = 5.0
#: Jobs that wait for those to cancel may come meanwhile: then it is tried again.
_TRIES = 10


def _left(timeout: Optional[float]) -> _Left:
    """Says how much of the time is left, from now on."""
    end = None if timeout is None else time.monotonic() + timeout
    return lambda: None if end is None else end - time.monotonic()


def _always() -> None:
    """What is left where the caller has set no time."""


class RedisPlace:
    """Takes puts and questions, and answers as a supervisor with this broker does."""

    def __init__(self, url: str) -> None:
        self.link: Link = Link(url)
        self._ear = Ear(self.link.redis)
        self._served = fleet.Served()

    def put(self, jobs: list[dict[str, Any]]) -> list[str]:
        """Queues jobs, all or none, and returns their ids. A put whose answer is lost is sent again."""
        what = f"failed to put {len(jobs)} job{'s' if len(jobs) > 1 else ''} into {self.link.name}"
        _check(jobs, what)
        arguments: list[Any] = [f"uid {os.geteuid()}", len(jobs)]
        ids = []
        for job in jobs:
            made = dict(job)
            if "id" not in made:
                made.update(id=outside.new_id(), exists="skip")
            elif made.get("exists") != "skip":
                made.setdefault("token", outside.new_id())
            ids.append(made["id"])
            arguments += _written(made)
        try:
            self.link.surely("put jobs into", lambda: self.link.call("put", *arguments),
                             doubt="; they may be queued or not")
        except Refused as error:
            raise refusal(error.words, what, put=True) from None
        except SupervisorError as error:
            raise PutError(str(error)) from None
        notes.warn(self._served.notes(self.link, jobs))
        return ids

    def ends(self, jobs: Iterable[str], timeout: Optional[float] = None) -> Iterator[tuple[str, bytes]]:
        """The ends of these jobs, as they come. TimeoutError when the time is over."""
        waiting = _Waiting(self, jobs, timeout)
        told: queue.Queue[Optional[str]] = queue.Queue()
        number = self._ear.watch(waiting.left, told.put)
        try:
            yield from waiting.look(waiting.left)
            while waiting.left:
                try:
                    heard = [told.get(timeout=waiting.pause())]
                except queue.Empty:
                    heard = [None]
                while not told.empty():
                    heard.append(told.get())
                yield from waiting.look(waiting.left if None in heard else heard)
        finally:
            self._ear.leave(number)

    async def aends(self, jobs: Iterable[str], timeout: Optional[float] = None) -> AsyncIterator[tuple[str, bytes]]:
        """As `ends`; other tasks of the event loop go on meanwhile."""
        import asyncio

        from ..client.threads import in_thread

        loop = asking.event_loop()
        told: asyncio.Queue[Optional[str]] = asyncio.Queue()
        waiting = _Waiting(self, jobs, timeout)

        def tell(job: Optional[str]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(told.put_nowait, job)

        number = self._ear.watch(waiting.left, tell)
        try:
            heard: list[Optional[str]] = [None]
            while waiting.left:
                wanted = list(waiting.left) if None in heard else heard
                for end in await in_thread(lambda: list(waiting.look(wanted))):
                    yield end
                if not waiting.left:
                    break
                pause = waiting.pause()
                try:
                    heard = [await asyncio.wait_for(told.get(), pause)]
                except asyncio.TimeoutError:
                    heard = [None]
                while not told.empty():
                    heard.append(told.get_nowait())
        finally:
            self._ear.leave(number)

    def ask(self, method: str, route: str, value: Any = None, timeout: Optional[float] = None) -> Any:
        """Looks at a job, or cancels jobs."""
        if method == "GET" and route.startswith("/v1/jobs/"):
            from urllib.parse import unquote

            return self.record(unquote(route[len("/v1/jobs/"):]), timeout)
        if (method, route) == ("POST", "/v1/cancel"):
            return self.cancel(value["jobs"], value.get("dependents", False), value.get("reason"), timeout)
        raise NotImplementedError(f"{method} {route} needs a supervisor: ask one by taskvisor.Client")

    def logs(self, job: str, query: dict[str, Any]) -> str:
        """None: it is in files of the host that ran the job. Raises which that is."""
        record = self.record(job)
        ran = "no attempt has begun"
        if record.get("instance"):
            name = record["instance"]
            host = next((one.host for one in fleet.supervisors(self.link) or () if one.instance == name), None)
            ran = f"attempt {record['attempt']} {'ran' if record['state'] in records.ENDED else 'runs'} by {name}"
            ran += f" on {host}" if host else ""
        raise SupervisorError(f"the output of job {job} is not in {self.link.name}: {ran}; output stays on the host that runs "
                              "the job: ask its supervisor by taskvisor.Client(url), or taskvisor job logs there")

    def unserved(self) -> Optional[str]:
        """Why nobody takes jobs there; None if somebody does."""
        signs = fleet.supervisors(self.link)
        if signs is None:
            return f"{self.link.name} does not answer"
        return None if any(sign.takes for sign in signs) else f"no supervisor on {self.link.name} takes jobs"

    def record(self, job: str, timeout: Optional[float] = None) -> dict[str, Any]:
        """The record of a job; `NoSuchJob` if there is none."""
        names = records.FIELDS
        answer = self._surely(f"look at {job} in", lambda: self.link.call("get", job, len(names), *names), timeout)
        return records.record(job, answer)

    def looked_at(self, jobs: Sequence[str], left: _Left = _always) -> dict[str, tuple[Optional[str], list[str]]]:
        """The state of each job, None if there is none, and the jobs that wait for it."""
        found: dict[str, tuple[Optional[str], list[str]]] = {}
        for at in range(0, len(jobs), _LOOKS):
            some = jobs[at:at + _LOOKS]
            for job, (state, dependents) in zip(some, self._look_at(some, left())):
                found[job] = text(state) or None, [text(other) for other in dependents]
        return found

    def _look_at(self, jobs: Sequence[str], timeout: Optional[float]) -> Any:
        return self._surely("look at jobs in", lambda: self.link.call("looked_at", len(jobs), *jobs), timeout)

    def cancel(self, jobs: Sequence[str], dependents: bool = False, reason: Optional[str] = None,
               timeout: Optional[float] = None) -> list[dict[str, Any]]:
        """Cancels jobs; says of each what becomes of it, as `POST /v1/cancel` does."""
        left = _left(timeout)
        for _ in range(_TRIES):
            named = self._named(list(dict.fromkeys(map(str, jobs))), dependents, left)
            refused = _refused(named)
            ending = [job for job, (state, _) in named.items() if state is not None and job not in refused]
            line = {"at": int(self._surely("ask", self.link.now, left()) * 1000),
                    "canceled": {"by": f"uid {os.geteuid()}", "reason": reason}}
            try:
                answers = self._surely("cancel jobs in", lambda: self.link.call(
                    "cancel", json.dumps(line, separators=(",", ":")), reason or "", len(ending), *ending), left())
            except Refused:
                continue  # Others have come to depend on them: they are looked at, too.
            return [_fate(job, refused.get(job), dict(zip(ending, answers)).get(job)) for job in named]
        raise SupervisorError("jobs that depend on those to be canceled keep coming: try again", 503)

    def _named(self, jobs: list[str], dependents: bool, left: _Left) -> dict[str, tuple[Optional[str], list[str]]]:
        named: dict[str, tuple[Optional[str], list[str]]] = {}
        while jobs:
            named.update(self.looked_at(jobs, left))
            jobs = [other for job in jobs for other in named[job][1] if dependents and other not in named]
            jobs = list(dict.fromkeys(jobs))
        return named

    def _surely(self, what: str, act: Callable[[], Any], timeout: Optional[float] = None) -> Any:
        try:
            return self.link.surely(what, act, timeout)
        except Refused as error:
            if error.words[0] == "again":
                raise
            raise refusal(error.words, f"failed to {what} {self.link.name}") from None


class _Waiting:
    """The jobs for whose ends somebody waits."""

    def __init__(self, place: RedisPlace, jobs: Iterable[str], timeout: Optional[float]) -> None:
        self.left = dict.fromkeys(map(str, jobs))
        self._place = place
        self._time = _left(timeout)
        self._what = f"jobs in {place.link.name} have not all ended within {timeout} s"

    def pause(self) -> float:
        """Seconds until all are looked at again; TimeoutError if the time is over."""
        left = self._time()
        if left is not None and left <= 0:
            raise TimeoutError(self._what)
        return _SILENCE_SECONDS if left is None else min(_SILENCE_SECONDS, left)

    def look(self, jobs: Iterable[Optional[str]]) -> Iterator[tuple[str, bytes]]:
        """Those of the jobs that have ended, each with its line."""
        wanted = [job for job in dict.fromkeys(jobs) if job is not None and job in self.left]
        for job, (state, _) in self._place.looked_at(wanted, self._time).items():
            if state is not None and state not in records.ENDED:
                continue
            end: dict[str, Any] = {"job": job, "error": f"no job has the id {job!r}", "code": 404}
            if state is not None:
                try:
                    end = {"job": job, "state": state, "record": self._place.record(job, self._time())}
                except NoSuchJob:
                    end = {"job": job, "state": state}
            del self.left[job]
            yield job, json.dumps(end).encode()


def _written(job: dict[str, Any]) -> list[Any]:
    """A job as the script takes it."""
    data = frames.strict_json(job["data"]).encode()
    policy = ""
    if any(name in job for name in ("retries", "retry_delay", "retry_cap")):
        policy = json.dumps({"retries": job.get("retries", 5), "delay": _duration(job.get("retry_delay", 1)),
                             "cap": _duration(job.get("retry_cap", 900))}, separators=(",", ":"))
    more = ["policy", policy]
    if "token" in job:
        more += ["token", job["token"]]
    if "time_limit" in job:
        more += ["limit", round(job["time_limit"] * 1e9)]
    if "expires" in job:
        more += ["begin_within", round(job["expires"] * 1000)]
    needs = job.get("depends", [])
    return [job["id"], "skip" if job.get("exists") == "skip" else "refuse", job["queue"], job["class"], data,
            job.get("priority", 0), repr(float(job.get("delay", 0))),
            json.dumps(job.get("tags", []), ensure_ascii=False, separators=(",", ":")), job.get("retries", 5),
            len(more), *more, len(needs), *needs]


def _duration(seconds: float) -> dict[str, int]:
    nanos = round(seconds * 1e9)
    return {"secs": nanos // 10**9, "nanos": nanos % 10**9}


def _check(jobs: list[dict[str, Any]], what: str) -> None:
    """Refuses what the supervisor would, before anything is sent."""
    if len(jobs) > _MOST_JOBS:
        raise PutError(f"{what}: too many jobs for one put: {_MOST_JOBS} are the most; put them in several")
    for job in jobs:
        if job["class"] == "exec":
            raise PutError(f"{what}: the class exec is for programs: put them by the program taskvisor")
        long = len(frames.strict_json(job["data"]).encode())
        if long > _MOST_DATA:
            raise PutError(f"{what}: data of {long} bytes cannot be sent to a worker: {_MOST_DATA} are the most; put it in "
                           "a file, and its path in the job")
        if len(job.get("tags", ())) > _MOST_TAGS:
            raise PutError(f"{what}: a job cannot have {len(job['tags'])} tags: {_MOST_TAGS} are the most")
        names = [("a job's id", job.get("id")), ("a class", job["class"]), *(("a tag", tag) for tag in job.get("tags", ()))]
        for kind, name in names:
            if name is not None and (not 0 < len(name.encode("utf-8", "replace")) <= 256
                                     or any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in name)):
                raise PutError(f"{what}: {kind} has 1 to 256 bytes, and no control characters: {name[:40]!r}")
    _refuse_circle({job["id"]: job.get("depends", []) for job in jobs if "id" in job}, what)


def _refuse_circle(needs: dict[str, list[str]], what: str) -> None:
    """Refuses jobs of a batch that would wait for each other for ever."""
    stuck = {job: len({need for need in some if need in needs}) for job, some in needs.items()}
    waiting: dict[str, list[str]] = {job: [] for job in needs}
    for job, some in needs.items():
        for need in {need for need in some if need in needs}:
            waiting[need].append(job)
    free = [job for job, count in stuck.items() if not count]
    while free:
        done = free.pop()
        del stuck[done]
        for job in waiting[done]:
            stuck[job] -= 1
            if not stuck[job]:
                free.append(job)
    if stuck:
        raise PutError(f"{what}: jobs cannot wait for each other in a circle: {', '.join(sorted(stuck)[:8])}")


def _refused(named: dict[str, tuple[Optional[str], list[str]]]) -> dict[str, dict[str, Any]]:
    """The jobs that are left as they are, and why: also those for which a job waits that stays."""
    refused: dict[str, dict[str, Any]] = {job: {"why": "state", "state": state} for job, (state, _) in named.items()
                                          if state in ("complete", "failed")}
    ending = {job for job, (state, _) in named.items() if state is not None and job not in refused}
    changed = True
    while changed:
        changed = False
        for job, (_, dependents) in named.items():
            staying = sorted(other for other in dependents if other not in ending)
            if staying and (job in ending or refused.get(job, {}).get("why") == "has_dependents"):
                changed |= job in ending
                ending.discard(job)
                refused[job] = {"why": "has_dependents", "jobs": staying}
    return refused


def _fate(job: str, refused: Optional[dict[str, Any]], answer: Any) -> dict[str, Any]:
    if refused is not None:
        return {"job": job, "refused": refused}
    if not answer:
        return {"job": job, "refused": {"why": "no_job"}}
    if isinstance(answer, list):
        return {"job": job, "state": text(answer[0]), "told_worker": text(answer[1])}
    return {"job": job, "state": text(answer)}
