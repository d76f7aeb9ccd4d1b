"""What takes the place of the supervisor: in tests (`taskvisor.testing`), or a Redis. Nothing here knows what it does."""

from __future__ import annotations

from . import running_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from typing import Any, Optional, Protocol
else:
    Protocol = object


class StandIn(Protocol):
    """Takes the puts and the questions of this process."""

    def put(self, jobs: list[dict[str, Any]]) -> list[str]:
        """Queues jobs, all or none, and returns their ids."""

    def ends(self, jobs: Iterable[str], timeout: Optional[float] = None) -> Iterator[tuple[str, bytes]]:
        """The ends of these jobs, as the lines of `POST /v1/wait`; TimeoutError after this time, or if one never ends."""

    def aends(self, jobs: Iterable[str], timeout: Optional[float] = None) -> AsyncIterator[tuple[str, bytes]]:
        """As `ends`; other tasks of the event loop go on meanwhile."""

    def ask(self, method: str, route: str, value: Any, timeout: Optional[float] = None) -> Any:
        """The value of an answer of the API."""

    def logs(self, job: str, query: dict[str, Any]) -> str:
        """What the job has printed, or the part that is wanted, by the names of the API; raises why there is none."""


class HasPlace(Protocol):
    """A client that knows where it puts jobs."""

    @property
    def place(self) -> StandIn:
        """Where it puts them."""


class _Current:
    """What takes the supervisor's place, if anything does."""

    #: In a test.
    one: Optional[StandIn] = None
    #: Else, where the application puts its jobs; not for those that a worker runs.
    default: Optional[StandIn] = None


current: _Current = _Current()


def place() -> Optional[StandIn]:
    """Where puts and questions go; None = to the supervisor that the settings name."""
    running = running_job.running()
    # The ids in a job are of its own supervisor: that is where its puts go.
    return current.one or (current.default if running is None or running.runtime is None else None)
