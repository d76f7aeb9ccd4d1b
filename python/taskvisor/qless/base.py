"""A job in the form of qless-py, running or not: its fields, and requests to the supervisor about it."""

from __future__ import annotations

import socket
import time

from ..errors import PutError
from .exceptions import QlessException
from .importing import imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, Optional, Protocol
else:
    Protocol = object

#: States by their names in qless, which has no others.
_STATES = {"delayed": "scheduled", "held": "failed", "canceling": "running"}


class Asking(Protocol):
    """The functions of `job.client` that a job uses."""

    #: Queues by name.
    queues: Any

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Asks the supervisor."""


class BaseJob:
    """Any job. Unknown fields are looked up at the first use, all of them by one call."""

    def __init__(self, client: Asking, jid: str, klass_name: str, queue_name: str, data: Any, priority: int,
                 tags: list[str]) -> None:
        #: The client for its requests.
        self.client = client
        #: Its id.
        self.jid = jid
        #: Its class: ``module.Class``.
        self.klass_name = klass_name
        #: The queue in which it waits, or from which it was taken.
        self.queue_name = queue_name
        #: The data that was put: any JSON value.
        self.data = data
        #: Tags, by which it can be found.
        self.tags: list[str] = tags
        self._priority = priority
        self._record: Optional[dict[str, Any]] = None

    def __getitem__(self, key: str) -> Any:
        return self.data.get(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self.data[key] = value

    def __repr__(self) -> str:
        return f"<{self.klass_name} {self.jid}>"

    @property
    def klass(self) -> Any:
        """The class itself."""
        return imported(self.klass_name)

    @property
    def queue(self) -> Any:
        """Its queue, for putting other jobs."""
        return self.client.queues[self.queue_name]

    @property
    def priority(self) -> int:
        """Higher runs first. A new value holds from the next attempt on."""
        return self._priority

    @priority.setter
    def priority(self, value: int) -> None:
        self.client.ask("priority", id=self.jid, priority=value)
        self._priority = value

    @property
    def state(self) -> str:
        """The state by its name in qless; that of a canceled job is ``canceled``."""
        state = str(self.record()["state"])
        return _STATES.get(state, state)

    @property
    def tracked(self) -> bool:
        """Whether it is tracked."""
        return bool(self.record().get("tracked"))

    @property
    def worker_name(self) -> str:
        """The worker that runs it, as clients of qless see it: HOST-INSTANCE-POOL.SLOT; empty if it does not run.

        Of a job that another host runs the host is not known here, and this one's name stands in its place."""
        record = self.record()
        if record.get("holder"):
            return str(record["holder"])
        if self.state != "running" or record.get("worker") is None:
            return ""
        return f"{socket.gethostname()}-{record['instance'][-8:]}-{record['worker']['slot']}"

    @property
    def expires_at(self) -> float:
        """Until when it may run, in seconds since 1970; 0 if it does not run. The supervisor renews this in time."""
        return float(self.record().get("expires_at_ms") or 0) / 1000

    @property
    def ttl(self) -> float:
        """Seconds until the lease expires."""
        return self.expires_at - time.time()

    @property
    def original_retries(self) -> Optional[int]:
        """Tries after the first one; None if the job leaves that to its pool."""
        retries = self.record().get("retries")
        return None if retries is None else int(retries)

    @property
    def retries_left(self) -> Optional[int]:
        """Tries that remain."""
        retries = self.original_retries
        return None if retries is None else retries - max(int(self.record()["attempt"]) - 1, 0)

    @property
    def dependencies(self) -> list[str]:
        """The ids of the jobs for which it waits."""
        return [need["job"] for need in self.record().get("depends", ())]

    @property
    def dependents(self) -> list[str]:
        """The ids of the jobs that wait for it."""
        return list(self.record().get("dependents", ()))

    @property
    def failure(self) -> dict[str, Any]:
        """The last failure: group, message, when, and a trace if there is one. Empty if it has not failed."""
        record = self.record()
        failure = record.get("failure")
        if failure is None:
            return {}
        when = (record.get("forensics") or {}).get("ended_at_ms") or record.get("ended_at_ms") or 0
        return {**failure, "when": when // 1000, "worker": ""}

    @property
    def history(self) -> list[dict[str, Any]]:
        """The history, oldest first: ``what`` and ``when``, and other known fields."""
        record = self.record()
        entries = [{"what": "put", "when": record["put_at_ms"] // 1000}]
        for entry in record.get("history", ()):
            told = {name: value for name, value in entry.items() if name not in ("at", "at_ms", "kind", "attempt")}
            entries.append({**entry.get("attempt", told), "what": entry["kind"], "when": entry["at_ms"] // 1000})
        return entries

    def record(self) -> dict[str, Any]:
        """The whole record, as ``taskvisor job show --json`` prints it."""
        if self._record is None:
            found: dict[str, Any] = self.client.ask("job", id=self.jid)
            self._record = found
        return self._record

    def cancel(self) -> str:
        """Cancels it. A running job, even this one, gets SIGTERM, and SIGKILL after the grace of its pool."""
        self.client.ask("cancel", id=self.jid)
        return self.jid

    def tag(self, *tags: str) -> list[str]:
        """Adds tags, and returns all its tags."""
        self.tags = self.client.ask("tag", id=self.jid, add=list(tags))["tags"]
        return self.tags

    def untag(self, *tags: str) -> list[str]:
        """Removes tags, and returns those that are left."""
        self.tags = self.client.ask("tag", id=self.jid, remove=list(tags))["tags"]
        return self.tags

    def track(self) -> bool:
        """Tracks it."""
        self.client.ask("track", id=self.jid)
        return True

    def untrack(self) -> bool:
        """Stops tracking it."""
        self.client.ask("untrack", id=self.jid)
        return True

    def depend(self, *_jids: str) -> NoReturn:
        """Not available here."""
        self._refuse("depend()", "give `depends` to put or complete, or run `taskvisor job depends JID on OTHER`")

    def undepend(self, *_jids: str, **_options: Any) -> NoReturn:
        """Not available here."""
        self._refuse("undepend()", "run `taskvisor job depends JID off OTHER`")

    def timeout(self) -> NoReturn:
        """Not available here."""
        self._refuse("timeout()", "a job gives itself back by retry(); others end it by cancel()")

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise QlessException(f"{what} of job {self.jid}: taskvisor's workers cannot do that; {instead}")


def asked(runtime: Any, verb: str, arguments: dict[str, Any]) -> Any:
    """The supervisor's answer, or a QlessException with the reason."""
    if runtime is None:
        raise QlessException(f"failed to {verb}: only the worker itself can ask the supervisor, not a process that a "
                             "job has started")
    try:
        return runtime.call(verb, arguments)
    except PutError as error:
        raise QlessException(str(error)) from None
