"""What a worker has to run: the functions that are jobs (`registry`), or the classes of another system (`qless`)."""

from __future__ import annotations

from ..client.running_job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable, Optional, Protocol
else:
    Protocol = object


class Function(Protocol):
    """What is called for a job."""

    @property
    def is_async(self) -> bool:
        """Whether it is an ``async def``."""

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""

    def call_for(self, data: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """The arguments in the data of a job, by place and by name."""


class Application(Protocol):
    """Made before the worker says hello."""

    def hello_classes(self) -> Optional[dict[str, dict[str, float]]]:
        """The classes that it knows, with their settings; None for any."""

    def has_coroutines(self) -> bool:
        """Whether any function of it needs an event loop."""

    def find(self, job: Job) -> Optional[Function]:
        """What is to be called for a job; None if its class is known to nobody here."""
