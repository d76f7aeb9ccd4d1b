"""The functions of this process that are jobs, by class name. `@job` adds them, workers look them up."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable, Optional, Protocol

    from .running_job import Job
else:
    Protocol = object


class Registered(Protocol):
    """A function that is a job, as `JobFunction` is."""

    #: Settings for its jobs that were put without their own.
    settings: dict[str, float]

    #: The queue of its jobs.
    queue: str

    #: Its schedule and its job then, in the form of the API; None = it does not recur.
    recurring: Optional[dict[str, Any]]

    @property
    def is_async(self) -> bool:
        """Whether it is an ``async def``."""

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""

    def call_for(self, data: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """The positional and the keyword arguments in the data of a job."""


#: Filled when the modules of the application are imported.
functions: dict[str, Registered] = {}


def hello_classes() -> dict[str, dict[str, float]]:
    """The classes with their settings, for the `hello` of the worker."""
    return {name: function.settings for name, function in functions.items()}


def schedules() -> dict[str, dict[str, Any]]:
    """The classes that recur, each with its schedule and its job."""
    return {name: function.recurring for name, function in functions.items() if function.recurring is not None}


def has_coroutines() -> bool:
    """Whether any of the functions needs an event loop."""
    return any(function.is_async for function in functions.values())


def find(job: Job) -> Optional[Registered]:
    """The function for a job, by its class."""
    return functions.get(job.class_name)
