"""Functions that are jobs, by the name of their class."""

from __future__ import annotations

import functools
import os
import sys

from . import arguments, calling, client
from .client import NewJob
from .errors import limit, name_of, seconds, size

# `typing`, `inspect` and their like are a tenth of what a worker weighs and of the time it takes to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from collections.abc import Sequence
    from typing import Any, Callable, Generic, Optional, TypeVar, Union, overload

    from typing_extensions import ParamSpec

    from .context import Job

    P = ParamSpec("P")
    R = TypeVar("R")
else:
    class Generic:
        """What is given in brackets is for type checkers only."""

        def __class_getitem__(cls, _parameters):
            return cls

    def overload(function):
        """As in `typing`."""
        return function

    P = R = None


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

    def __init__(self, function: Callable[P, R], class_name: str, queue: str, settings: dict[str, float]) -> None:
        wrapped: Any = self
        functools.update_wrapper(wrapped, function)
        #: The function itself.
        self.function = function
        #: The name under which it is queued.
        self.class_name = class_name
        #: Where it is queued unless another is given.
        self.queue = queue
        #: What its jobs get that were put without their own: limits, retries, retry_delay, retry_cap.
        self.settings = settings
        #: True for ``async def``.
        self.is_async = arguments.is_async(function)
        self._shape = arguments.shape(function)
        if self._shape is None:
            self._signature: Optional[inspect.Signature] = arguments.signature(function)
        else:
            self._signature = None
        arguments.look_like(wrapped, function, self.is_async)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str, str]]:
        # As a function is pickled: by its name. Its place may hold the plain function, so the class is named too.
        return _unpickle, (self.__module__, getattr(self, "__qualname__", ""), self.class_name)

    @property
    def signature(self) -> inspect.Signature:
        """How it is called."""
        if self._signature is None:
            self._signature = arguments.signature(self.function)
        return self._signature

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function here, without any queue."""
        result: R = calling.call(self.function, args, kwargs)
        return result

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The job for this call, not queued yet: for `put_many`."""
        return self.options().prepare(*args, **kwargs)

    def put(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Queues a job that makes this call, and returns its id."""
        return self.options().put(*args, **kwargs)

    async def aput(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """As `put`; other tasks of the event loop go on until the job is durable."""
        return await self.options().aput(*args, **kwargs)

    def options(self, *, queue: Optional[str] = None, delay: Optional[float] = None, priority: Optional[int] = None,
                tags: Optional[Sequence[str]] = None, retries: Optional[int] = None,
                time_limit: Optional[float] = None, id: Optional[str] = None, exists: Optional[str] = None,
                depends: Optional[Sequence[str]] = None) -> Options[P, R]:
        """Another queue, a delay and so on for the jobs that are put with what this returns.

        >>> @job("doc.Later")
        ... def later(what): ...
        >>> later.options(delay=10, tags=["x"]).prepare("tea").delay
        10
        """
        given = {"delay": delay, "priority": priority, "tags": tags, "retries": retries, "time_limit": time_limit,
                 "id": id, "exists": exists, "depends": depends}
        return Options(self, self.queue if queue is None else queue, given)

    def call_for(self, data: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """The arguments in the data of a job, by place and by name; DataMismatch if they do not fit."""
        if self._shape is not None:
            call = arguments.plainly(self._shape, data)
            if call is not None:
                return call
        bound = arguments.from_data(self.__name__, self.signature, data)
        return bound.args, bound.kwargs

    __name__: str

    def __repr__(self) -> str:
        return f"<job {self.class_name}>"


class Options(Generic[P, R]):
    """A function that is a job, with options for the jobs to put. Made by `JobFunction.options`."""

    def __init__(self, function: JobFunction[P, R], queue: str, given: dict[str, Any]) -> None:
        self._function = function
        self._queue = queue
        self._given = given

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The job for this call, not queued yet: for `put_many`."""
        data = arguments.to_data(self._function.signature, args, kwargs)
        return NewJob(self._queue, self._function.class_name, data, **self._given)

    def put(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Queues a job that makes this call, and returns its id."""
        return client.put_many([self.prepare(*args, **kwargs)])[0]

    async def aput(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """As `put`; other tasks of the event loop go on until the job is durable."""
        return (await client.aput_many([self.prepare(*args, **kwargs)]))[0]


#: All of them. Filled when their modules are imported.
functions: dict[str, JobFunction[Any, Any]] = {}


@overload
def job(function: Callable[P, R], /) -> JobFunction[P, R]: ...


@overload
def job(class_name: Optional[str] = None, /, *, queue: str = "default", time_limit: Optional[float] = None,
        soft_time_limit: Optional[float] = None, memory_limit: Union[int, str, None] = None,
        cpu_limit: Optional[float] = None, process_limit: Optional[int] = None,
        output_limit: Union[int, str, None] = None, retries: Optional[int] = None,
        retry_delay: Optional[float] = None,
        retry_cap: Optional[float] = None) -> Callable[[Callable[P, R]], JobFunction[P, R]]: ...


def job(function: Union[Callable[..., Any], str, None] = None, /, *, queue: str = "default",
        time_limit: Optional[float] = None, soft_time_limit: Optional[float] = None,
        memory_limit: Union[int, str, None] = None, cpu_limit: Optional[float] = None,
        process_limit: Optional[int] = None, output_limit: Union[int, str, None] = None,
        retries: Optional[int] = None, retry_delay: Optional[float] = None, retry_cap: Optional[float] = None) -> Any:
    """Makes a function a job. Its class is the given name, else ``module.function``.

    Times are in seconds, memory and output in bytes or written as "512MB". They hold for jobs that are put without
    their own, and win over those of the pool.

    >>> @job("doc.Send", queue="mail", time_limit=60, retries=3, retry_delay=1, retry_cap=900)
    ... def send(to, subject="hi"):
    ...     return {"sent": 1}
    >>> send.queue, send.settings["retries"]
    ('mail', 3)
    """
    if function is not None and not isinstance(function, str):
        arguments.check_target(function)
    settings: dict[str, float] = {}
    for name, value in (("time_limit", time_limit), ("soft_time_limit", soft_time_limit), ("cpu_limit", cpu_limit)):
        if value is not None:
            settings[name] = limit(name, value)
    for name, value in (("retry_delay", retry_delay), ("retry_cap", retry_cap)):
        if value is not None:
            settings[name] = seconds(name, value)
    for name, amount in (("memory_limit", memory_limit), ("output_limit", output_limit)):
        if amount is not None:
            settings[name] = size(name, amount)
    for name, count, least in (("process_limit", process_limit, 1), ("retries", retries, 0)):
        if count is not None:
            settings[name] = client.whole(name, count, least)
    if time_limit is not None and soft_time_limit is not None and soft_time_limit > time_limit:
        raise ValueError(f"soft_time_limit ({soft_time_limit!r}) must not be above time_limit ({time_limit!r}): "
                         "the job would never be told of it")
    name_of("queue", queue)
    if isinstance(function, str):
        name_of("the class of a job", function)

    def register(target: Callable[..., Any]) -> JobFunction[Any, Any]:
        arguments.check_target(target)
        name = function if isinstance(function, str) else name_of("the class of a job", _default_name(target))
        made = JobFunction(target, name, queue, settings)
        before = functions.get(name)
        if before is not None and _default_name(before.function) != _default_name(target):
            raise ValueError(f"two functions are the job {name!r}: {_default_name(before.function)} and "
                             f"{_default_name(target)}")
        functions[name] = made
        client.class_settings[name] = settings
        return made

    return register(function) if callable(function) else register


def hello_classes() -> dict[str, dict[str, float]]:
    """What this worker can run, as its hello says it."""
    return {name: function.settings for name, function in functions.items()}


def has_coroutines() -> bool:
    """Whether any of them needs an event loop."""
    return any(function.is_async for function in functions.values())


def find(job: Job) -> Optional[JobFunction[Any, Any]]:
    """The function of its class."""
    return functions.get(job.class_name)


def _unpickle(module: str, qualified_name: str, class_name: str) -> JobFunction[Any, Any]:
    """The job that was pickled in this process or another."""
    import importlib

    place: Any = importlib.import_module(module)
    for name in qualified_name.split("."):
        place = getattr(place, name, None)
    found = place if isinstance(place, JobFunction) else functions.get(class_name)
    if found is None:
        raise AttributeError(f"failed to unpickle the job {class_name!r}: importing {module} does not make it; "
                             "decorate it when the module is loaded, not within a function")
    return found


def _default_name(function: Callable[..., Any]) -> str:
    module = function.__module__
    if module == "__main__":
        # The worker imports the file by its name, so that is what the job is called by.
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        file = getattr(main, "__file__", None)
        module = spec.name if spec else os.path.splitext(os.path.basename(file))[0] if file else module
    # An object that can be called has no name of its own.
    return f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"
