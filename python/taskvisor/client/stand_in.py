"""What takes the place of the supervisor in tests: see `taskvisor.testing`. Nothing here knows what it does."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Optional, Protocol
else:
    Protocol = object


class StandIn(Protocol):
    """Takes the puts and the questions of this process."""

    def put(self, jobs: list[dict[str, Any]]) -> list[str]:
        """Queues jobs, all or none, and returns their ids."""

    def ends(self, jobs: Iterable[str]) -> list[tuple[str, bytes]]:
        """The ends of these jobs, as the lines of `POST /v1/wait`; TimeoutError if one will never end."""

    def ask(self, method: str, route: str, value: Any) -> Any:
        """The value of an answer of the API."""


class _Current:
    """The stand-in that is in use, if one is."""

    one: Optional[StandIn] = None


current = _Current()
