"""Queueing jobs: over the channel inside of a job, over the API socket or by the program outside."""

from __future__ import annotations

from . import context, frames
from .advance import ids
from .errors import PutError, limit, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Optional

#: The settings of the classes that this process knows.
class_settings: dict[str, dict[str, float]] = {}


class NewJob:
    """A job to be put, of any class, also one of another language. Times are in seconds.

    >>> NewJob("mail", "mail.Send", {"to": "a@b.c"}, delay=10).queue
    'mail'
    """

    def __init__(self, queue: str, class_name: str, data: Any = None, delay: Optional[float] = None,
                 priority: Optional[int] = None, tags: Optional[Sequence[str]] = None, retries: Optional[int] = None,
                 time_limit: Optional[float] = None, id: Optional[str] = None, exists: Optional[str] = None,
                 depends: Optional[Sequence[str]] = None) -> None:
        #: Where it waits.
        self.queue = queue
        #: What it is.
        self.class_name = class_name
        #: Any JSON value.
        self.data = data
        #: Not before this long from now.
        self.delay = delay
        #: Higher runs first; 0 unless given.
        self.priority = priority
        #: Words to find it by.
        self.tags = tags
        #: Tries after the first one.
        self.retries = retries
        #: The longest run of an attempt.
        self.time_limit = time_limit
        #: Its id; made by the supervisor unless given.
        self.id = id
        #: If that id exists: "refuse", which is the default, or "skip": put nothing, and give that id.
        self.exists = exists
        #: Not before these jobs are complete: their ids.
        self.depends = depends

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"NewJob({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def fields(self) -> dict[str, Any]:
        """As `call put` takes it; a TypeError if it is not fit to be sent.

        >>> NewJob("mail", "mail.Send", [1], priority=5).fields()
        {'queue': 'mail', 'class': 'mail.Send', 'data': [1], 'priority': 5}
        """
        try:
            frames.strict_json(self.data)
        except TypeError as error:
            raise TypeError(f"the arguments of {self.class_name} are {error}") from None
        if isinstance(self.tags, str):
            raise TypeError(f"tags must be a list of text, not {self.tags!r}")
        return {"queue": self.queue, "class": self.class_name, "data": self.data, **self._options()}

    def _options(self) -> dict[str, Any]:
        options = {
            "priority": self.priority,
            "delay": None if self.delay is None else seconds("delay", self.delay),
            "tags": None if self.tags is None else [str(tag) for tag in self.tags],
            "retries": None if self.retries is None else whole("retries", self.retries),
            "time_limit": None if self.time_limit is None else limit("time_limit", self.time_limit),
            "id": self.id,
            "exists": None if self.exists is None else _exists(self.exists),
            "depends": ids("depends", self.depends),
        }
        return {name: value for name, value in options.items() if value is not None}


def put(queue: str, class_name: str, data: Any = None, *, delay: Optional[float] = None,
        priority: Optional[int] = None, tags: Optional[Sequence[str]] = None, retries: Optional[int] = None,
        time_limit: Optional[float] = None, id: Optional[str] = None, exists: Optional[str] = None,
        depends: Optional[Sequence[str]] = None) -> str:
    """Queues a job of any class and returns its id, once it is durable.

        put("images", "Thumbnail", {"path": "/a.png"}, delay=10, tags=["nightly"])
    """
    job = NewJob(queue, class_name, data, delay, priority, tags, retries, time_limit, id, exists, depends)
    return put_many([job])[0]


async def aput(queue: str, class_name: str, data: Any = None, **options: Any) -> str:
    """As `put`; other tasks of the event loop go on until the job is durable.

        await aput("images", "Thumbnail", {"path": "/a.png"})
    """
    return (await aput_many([NewJob(queue, class_name, data, **options)]))[0]


def put_many(jobs: Iterable[NewJob]) -> list[str]:
    """Queues jobs, all or none, and returns their ids in the same order.

        put_many(send.prepare(to) for to in addresses)
    """
    wanted = [job.fields() for job in jobs]
    if not wanted:
        return []
    running = context.running()
    if running is None or running.runtime is None:
        from . import outside

        return outside.put(wanted)
    return _ids(running.runtime.call("put", {"jobs": wanted}))


async def aput_many(jobs: Iterable[NewJob]) -> list[str]:
    """As `put_many`; other tasks of the event loop go on until the jobs are durable.

        await aput_many([send.prepare("a@b.c"), send.prepare("d@e.f")])
    """
    wanted = [job.fields() for job in jobs]
    if not wanted:
        return []
    running = context.running()
    if running is None or running.runtime is None:
        import asyncio
        from contextvars import copy_context

        from . import outside

        work = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(None, work, outside.put, wanted)
    return _ids(await running.runtime.call_async("put", {"jobs": wanted}))


#: The supervisor counts in 32 bits.
_LARGEST_COUNT = 2**32 - 1


def whole(name: str, value: int, least: int = 0) -> int:
    """The value, if it is a whole number from `least` on.

    >>> whole("retries", 3)
    3
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST_COUNT:
        raise ValueError(f"{name} must be a whole number from {least} to {_LARGEST_COUNT}, not {value!r}")
    return value


def _exists(value: str) -> str:
    if value not in ("refuse", "skip"):
        raise ValueError(f"exists must be 'refuse' or 'skip', not {value!r}")
    return value


def _ids(answer: Any) -> list[str]:
    try:
        return [str(id) for id in answer["ids"]]
    except (TypeError, KeyError):
        raise PutError(f"failed to put: the supervisor answered {answer!r}") from None
