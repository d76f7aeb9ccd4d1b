"""A job to put: its queue, class, data and options, checked before they are sent. It never sends itself."""

from __future__ import annotations

from ..checks import exists_rule, ids, job_id, limit, name_of, priority, seconds, whole
from ..protocol import values
from . import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Literal, Optional


class NewJob:
    """A job to be put, of any class, also one of another language. Times are in seconds.

    >>> NewJob("mail", "mail.Send", {"to": "a@b.c"}, delay=10).queue
    'mail'
    """

    def __init__(self, queue: str, class_name: str, data: Any = None, delay: Optional[float] = None,
                 priority: Optional[int] = None, tags: Optional[Sequence[str]] = None, retries: Optional[int] = None,
                 time_limit: Optional[float] = None, id: Optional[str] = None,
                 exists: Optional[Literal["refuse", "skip"]] = None,
                 depends: Optional[Sequence[str]] = None, expires: Optional[float] = None) -> None:
        #: The queue in which the job waits.
        self.queue = queue
        #: The name of its class.
        self.class_name = class_name
        #: Any value that JSON has, or that `values` writes as JSON.
        self.data = data
        #: The shortest time until it runs, in seconds from now.
        self.delay = delay
        #: Higher runs first; 0 unless given.
        self.priority = priority
        #: Tags, by which lists can be filtered.
        self.tags = tags
        #: How often it is tried again after it has failed.
        self.retries = retries
        #: The longest run of an attempt, in seconds.
        self.time_limit = time_limit
        #: Its id; made by the supervisor unless given.
        self.id = id
        #: What happens if that id exists: "refuse" (the default), or "skip", which puts nothing and returns that id.
        self.exists = exists
        #: Ids of jobs that have to be complete before it runs.
        self.depends = depends
        #: It is dropped unless it begins within this many seconds from now: then it has failed, in the group ``expired``.
        self.expires = expires

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __repr__(self) -> str:
        return f"NewJob({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def fields(self) -> dict[str, Any]:
        """The fields of a job as the supervisor takes it; a TypeError if a value cannot be sent.

        >>> NewJob("mail", "mail.Send", [1], priority=5).fields()
        {'queue': 'mail', 'class': 'mail.Send', 'data': [1], 'priority': 5}
        """
        try:
            data = values.to_json(self.data)
        except TypeError as error:
            raise TypeError(f"the arguments of {self.class_name} are {error}") from None
        if isinstance(self.tags, str):
            raise TypeError(f"tags must be a list of text, not {self.tags!r}")
        return {"queue": name_of("queue", self.queue), "class": self.class_name, "data": data, **self._options()}

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "priority": None if self.priority is None else priority("priority", self.priority),
            "delay": None if self.delay is None else seconds("delay", self.delay),
            "tags": None if self.tags is None else [str(tag) for tag in self.tags],
            "retries": None if self.retries is None else whole("retries", self.retries),
            "time_limit": None if self.time_limit is None else limit("time_limit", self.time_limit),
            "id": None if self.id is None else job_id("id", self.id),
            "exists": None if self.exists is None else exists_rule(self.exists),
            "depends": ids("depends", self.depends),
            "expires": None if self.expires is None else limit("expires", self.expires),
        }
        known = registry.functions.get(self.class_name)
        if self.expires is None:
            # Functions of frameworks have none.
            options["expires"] = getattr(known, "expires", None)
        if self.retries is not None:
            # With its own number of retries a job also needs waits between them: those of its function.
            options.update((name, value) for name, value in (known.settings if known else {}).items()
                           if name in ("retry_delay", "retry_cap"))
        return {name: value for name, value in options.items() if value is not None}


def fields_of(jobs: Iterable[NewJob]) -> list[dict[str, Any]]:
    """The fields of each of these jobs; a TypeError if one is no new job.

    >>> fields_of(["01a2"])
    Traceback (most recent call last):
    ...
    TypeError: a job to put is made by send.prepare(...), or by NewJob(...), not '01a2': that is an id, of a job that is put
    """
    found = []
    for job in jobs:
        if not isinstance(job, NewJob):
            known = ": that is an id, of a job that is put" if isinstance(job, str) else ""
            raise TypeError(f"a job to put is made by send.prepare(...), or by NewJob(...), not {job!r}{known}")
        found.append(job.fields())
    return found
