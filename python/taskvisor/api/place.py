"""A supervisor at a given place, for the jobs that a client puts there."""

from __future__ import annotations

from ..client import asking, endpoint, outside, output, waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from typing import Any, Optional


class Supervisor:
    """Takes puts and questions in place of the supervisor that listens here."""

    def __init__(self, at: endpoint.Endpoint, is_named: bool = True) -> None:
        self.at = at
        self._is_named = is_named

    def put(self, jobs: list[dict[str, Any]]) -> list[str]:
        """Queues jobs, all or none, and returns their ids."""
        if not self._is_named:
            outside.refuse_in_tests(jobs)
        return outside.put(jobs, self.at)

    def ends(self, jobs: Iterable[str], timeout: Optional[float] = None) -> Iterator[tuple[str, bytes]]:
        """The ends of these jobs, as they come."""
        return waiting.ends_of_supervisor(jobs, timeout, self.at)

    def aends(self, jobs: Iterable[str], timeout: Optional[float] = None) -> AsyncIterator[tuple[str, bytes]]:
        """As `ends`; other tasks of the event loop go on meanwhile."""
        return waiting.aends_of_supervisor(jobs, timeout, self.at)

    def ask(self, method: str, route: str, value: Any = None, timeout: Optional[float] = None) -> Any:
        """The value of an answer of the API."""
        return asking.ask_supervisor(method, route, value, timeout, self.at)

    def logs(self, job: str, query: dict[str, Any]) -> str:
        """What the job has printed."""
        return output.of_supervisor(job, query, self.at)
