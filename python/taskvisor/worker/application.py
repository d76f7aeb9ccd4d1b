"""What a worker runs, as protocols: `client.registry` has functions that are jobs, `qless` the classes of qless-py."""

from __future__ import annotations

from ..client.running_job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable, Optional, Protocol
else:
    Protocol = object


class Function(Protocol):
    """The function of a job."""

    @property
    def is_async(self) -> bool:
        """Whether it is an ``async def``."""

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""

    def call_for(self, data: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """The positional and the keyword arguments in the data of a job."""


class Prepared:
    """A function that has its job already: it takes no arguments, and is no coroutine."""

    is_async = False

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def call_for(self, _data: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """None."""
        return (), {}


class Application(Protocol):
    """The application that a worker loads before it says hello."""

    def hello_classes(self) -> Optional[dict[str, dict[str, float]]]:
        """The classes that it can run, with their settings; None if it takes any."""

    def has_coroutines(self) -> bool:
        """Whether any function of it needs an event loop."""

    def find(self, job: Job) -> Optional[Function]:
        """The function for a job; None if the application has none for its class."""
