"""`@job`, which makes a function a job: it checks its arguments and registers the function by the name of its class."""

from __future__ import annotations

import os
import sys

from ..checks import limit, name_of, seconds, size, whole
from . import arguments, registry
from .job_function import JobFunction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any, Callable, Optional, Protocol, TypeVar, Union, overload

    from typing_extensions import ParamSpec

    from .job_function import AsyncJobFunction

    P = ParamSpec("P")
    R = TypeVar("R")

    class Decorator(Protocol):
        """What `job` with arguments returns."""

        @overload
        def __call__(self, __function: Callable[P, Coroutine[Any, Any, R]]) -> AsyncJobFunction[P, R]: ...

        @overload
        def __call__(self, __function: Callable[P, R]) -> JobFunction[P, R]: ...
else:
    def overload(function):
        """Stands in for `typing.overload`."""
        return function


# Names with two underscores are positional only: Python 3.7 has no "/".
@overload
def job(__function: Callable[P, Coroutine[Any, Any, R]]) -> AsyncJobFunction[P, R]: ...


@overload
def job(__function: Callable[P, R]) -> JobFunction[P, R]: ...


@overload
def job(__class_name: Optional[str] = None, *, queue: str = "default", time_limit: Optional[float] = None,
        soft_time_limit: Optional[float] = None, memory_limit: Union[int, str, None] = None,
        cpu_limit: Optional[float] = None, process_limit: Optional[int] = None,
        output_limit: Union[int, str, None] = None, retries: Optional[int] = None,
        retry_delay: Optional[float] = None,
        retry_cap: Optional[float] = None, expires: Optional[float] = None, cron: Optional[str] = None,
        tz: Optional[str] = None) -> Decorator: ...


def job(function: Union[Callable[..., Any], str, None] = None, *, queue: str = "default",
        time_limit: Optional[float] = None, soft_time_limit: Optional[float] = None,
        memory_limit: Union[int, str, None] = None, cpu_limit: Optional[float] = None,
        process_limit: Optional[int] = None, output_limit: Union[int, str, None] = None,
        retries: Optional[int] = None, retry_delay: Optional[float] = None, retry_cap: Optional[float] = None,
        expires: Optional[float] = None, cron: Optional[str] = None, tz: Optional[str] = None) -> Any:
    """Makes a function a job. Its class is the given name, else ``module.function``.

    Times are in seconds, memory and output in bytes or written as "512MB". They hold for jobs that are put without
    their own, and win over those of the pool.

    With `expires` a job is dropped unless it begins within this time after its put: then it has failed, in the group
    ``expired``. It holds for jobs that this code puts, and for those of `cron`.

    With `cron` it recurs while workers have it: ``@job(cron="0 3 * * *", tz="Europe/Vienna")``, without `tz` in UTC. A
    start, a recycle or a save under `start --watch` takes a new schedule over, and removes one that the code has no longer.

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
            settings[name] = whole(name, count, least)
    if time_limit is not None and soft_time_limit is not None and soft_time_limit > time_limit:
        raise ValueError(f"soft_time_limit ({soft_time_limit!r}) must not be above time_limit ({time_limit!r}): "
                         "the job would never be told of it")
    if expires is not None:
        limit("expires", expires)
    name_of("queue", queue)
    schedule = _schedule(cron, tz)
    if isinstance(function, str):
        name_of("the class of a job", function)

    def register(target: Callable[..., Any]) -> JobFunction[Any, Any]:
        arguments.check_target(target)
        name = function if isinstance(function, str) else name_of("the class of a job", _default_name(target))
        made = JobFunction(target, name, queue, settings, expires)
        if schedule is not None:
            made.recurs(schedule)
        before = registry.functions.get(name)
        if before is not None and _default_name(before.function) != _default_name(target):
            raise ValueError(f"two functions are the job {name!r}: {_default_name(before.function)} and "
                             f"{_default_name(target)}")
        registry.functions[name] = made
        return made

    return register(function) if callable(function) else register


def _schedule(cron: Optional[str], tz: Optional[str]) -> Optional[dict[str, Any]]:
    """The schedule in the form of the API. The supervisor reads the line: a wrong one stops the worker's start."""
    if cron is None:
        if tz is not None:
            raise ValueError(f"tz={tz!r} is the time zone of a cron=, and there is none")
        return None
    for name, value in (("cron", cron), ("tz", tz)):
        if value is not None and (not isinstance(value, str) or not value):
            raise ValueError(f"{name} must be a text like {'0 3 * * *' if name == 'cron' else 'Europe/Vienna'!r}, not {value!r}")
    return {"cron": {"line": cron} if tz is None else {"line": cron, "zone": tz}}


def _default_name(function: Callable[..., Any]) -> str:
    module = function.__module__
    if module == "__main__":
        # The worker imports the file by its module name, so the job is named after that.
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        file = getattr(main, "__file__", None)
        module = spec.name if spec else os.path.splitext(os.path.basename(file))[0] if file else module
    # A callable object has no name of its own.
    return f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"
