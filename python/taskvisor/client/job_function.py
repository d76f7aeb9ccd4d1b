"""The function that `@job` returns: called like the function it was made of, and queued with `put`.

It never runs a job itself: a worker does.
"""

from __future__ import annotations

import functools

from . import arguments, calling, putting, registry
from .job_id import JobId
from .new_job import NewJob

# `typing`, `inspect` and similar modules take a tenth of a worker's memory and start time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from collections.abc import Coroutine, Sequence
    from typing import Any, Callable, Generic, Literal, Optional, TypeVar

    from typing_extensions import ParamSpec

    from .stand_in import HasPlace, StandIn

    P = ParamSpec("P")
    R = TypeVar("R")
else:
    class Generic:
        """The parameters in brackets are for type checkers only."""

        def __class_getitem__(cls, _parameters):
            return cls

    P = R = None


#: How RQ, Celery, Dramatiq, arq and Huey queue a call.
_WORDS_FOR_PUT = frozenset(("apply_async", "delay", "enqueue", "enqueue_in", "enqueue_job", "schedule", "send",
                            "send_with_options"))


class JobFunction(Generic[P, R]):
    """A function that is a job: still called like the function, and queued with `put`.

    >>> @job("doc.Add")
    ... def add(a, b=1):
    ...     return a + b
    >>> add(2)
    3
    >>> add.class_name, add.prepare(2).data
    ('doc.Add', {'a': 2})
    """

    def __init__(self, function: Callable[P, R], class_name: str, queue: str, settings: dict[str, float],
                 expires: Optional[float] = None) -> None:
        wrapped: Any = self
        functools.update_wrapper(wrapped, function)
        #: The function itself.
        self.function = function
        #: The name under which it is queued.
        self.class_name = class_name
        #: The queue of its jobs, unless they are put with another.
        self.queue = queue
        #: Settings for its jobs that were put without their own: limits, retries, retry_delay, retry_cap.
        self.settings = settings
        #: Jobs that are put by this code are dropped unless they begin within this many seconds; None = they are not.
        self.expires = expires
        #: True for ``async def``.
        self.is_async: bool = arguments.is_async(function)
        #: When it recurs, in the form of the API, and its job then; None = it does not.
        self.recurring: Optional[dict[str, Any]] = None
        self._shape = arguments.shape(function)
        if self._shape is None:
            self._signature: Optional[inspect.Signature] = arguments.signature(function)
        else:
            self._signature = None
        arguments.look_like(wrapped, function, self.is_async)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str, str]]:
        # By its name, as functions are pickled. If the module has the plain function under that name, the class finds
        # it.
        return _unpickle, (self.__module__, getattr(self, "__qualname__", ""), self.class_name)

    @property
    def signature(self) -> inspect.Signature:
        """The signature of the function."""
        if self._signature is None:
            self._signature = arguments.signature(self.function)
        return self._signature

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function here, without any queue."""
        result: R = calling.call(self.function, args, kwargs)
        return result

    def recurs(self, schedule: dict[str, Any]) -> None:
        """Has workers take this schedule over. Called by `job`; TypeError if the function cannot be called plainly."""
        try:
            made = Options(self, self.queue, {"expires": self.expires}).prepare()  # type: ignore[call-arg]
        except TypeError as error:
            raise TypeError(f"a job with cron= is called without arguments: {error}") from None
        self.recurring = {"schedule": schedule, "job": made.fields()}

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The job for this call, not queued yet: for `put_many`."""
        return self.options().prepare(*args, **kwargs)

    def put(self, *args: P.args, **kwargs: P.kwargs) -> JobId[R]:
        """Queues a job that makes this call, and returns its id."""
        return self.options().put(*args, **kwargs)

    async def aput(self, *args: P.args, **kwargs: P.kwargs) -> JobId[R]:
        """As `put`; other tasks of the event loop go on until the job is durable."""
        return await self.options().aput(*args, **kwargs)

    def options(self, *, queue: Optional[str] = None, delay: Optional[float] = None, priority: Optional[int] = None,
                tags: Optional[Sequence[str]] = None, retries: Optional[int] = None,
                time_limit: Optional[float] = None, id: Optional[str] = None,
                exists: Optional[Literal["refuse", "skip"]] = None,
                depends: Optional[Sequence[str]] = None, expires: Optional[float] = None,
                client: Optional[HasPlace] = None) -> Options[P, R]:
        """Options such as another queue or a delay for the jobs that are put with the returned object.

        `client` is where they are put, if not where this process puts others.

        >>> @job("doc.Later")
        ... def later(what): ...
        >>> later.options(delay=10, tags=["x"]).prepare("tea").delay
        10
        """
        given = {"delay": delay, "priority": priority, "tags": tags, "retries": retries, "time_limit": time_limit,
                 "id": id, "exists": exists, "depends": depends, "expires": expires}
        return Options(self, self.queue if queue is None else queue, given, None if client is None else client.place)

    def call_for(self, data: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """The arguments in the data of a job, by place and by name; DataMismatch if they do not fit."""
        if self._shape is not None:
            call = arguments.plainly(self._shape, data)
            if call is not None:
                return call
        bound = arguments.from_data(self.__name__, self.signature, data)
        return bound.args, bound.kwargs

    __name__: str

    if not TYPE_CHECKING:
        def __getattr__(self, name):
            """Suggests `put` if the name is one by which another library queues jobs."""
            known = f"; queue it with {self.__dict__.get('__name__', 'job')}.put(...)" if name in _WORDS_FOR_PUT else ""
            raise AttributeError(f"a job has no attribute {name!r}{known}")

    def __repr__(self) -> str:
        return f"<job {self.class_name}>"


if TYPE_CHECKING:
    class AsyncJobFunction(JobFunction[P, R]):
        """A `JobFunction` of an ``async def``: called it is a coroutine, put it is a job with the result of that."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # type: ignore[override]
            """Calls the function here, without any queue."""


class Options(Generic[P, R]):
    """A function that is a job, with options for the jobs to put. Made by `JobFunction.options`."""

    def __init__(self, function: JobFunction[P, R], queue: str, given: dict[str, Any],
                 place: Optional[StandIn] = None) -> None:
        self._function = function
        self._queue = queue
        self._given = given
        self._place = place

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The job for this call, not queued yet: for `put_many`."""
        data = arguments.to_data(self._function.signature, args, kwargs)
        return NewJob(self._queue, self._function.class_name, data, **self._given)

    def put(self, *args: P.args, **kwargs: P.kwargs) -> JobId[R]:
        """Queues a job that makes this call, and returns its id."""
        return putting.put_at(self._place, [self.prepare(*args, **kwargs)])[0]

    async def aput(self, *args: P.args, **kwargs: P.kwargs) -> JobId[R]:
        """As `put`; other tasks of the event loop go on until the job is durable."""
        return (await putting.aput_at(self._place, [self.prepare(*args, **kwargs)]))[0]


def _unpickle(module: str, qualified_name: str, class_name: str) -> JobFunction[Any, Any]:
    """Finds the job that was pickled."""
    import importlib

    place: Any = importlib.import_module(module)
    for name in qualified_name.split("."):
        place = getattr(place, name, None)
    found = place if isinstance(place, JobFunction) else registry.functions.get(class_name)
    if not isinstance(found, JobFunction):
        raise AttributeError(f"failed to unpickle the job {class_name!r}: importing {module} does not make it; "
                             "decorate it when the module is loaded, not within a function")
    return found
