"""Reads the output of a job: of the supervisor, and while none runs by the program `taskvisor job logs`.

Imported only when it is needed.
"""

from __future__ import annotations

from ..protocol.http import quoted
from . import asking, endpoint, program, stand_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from .stand_in import StandIn


def logs(job: str, place: Optional[StandIn], wanted: dict[str, Any]) -> str:
    """The output, or the part of it that is wanted, by the names of the API."""
    query = {name: value for name, value in wanted.items() if value is not None}
    # A supervisor that happens to run here knows nothing of the jobs of a test or, it may be, of a Redis.
    kept = place or stand_in.place()
    if kept is not None:
        return kept.logs(job, query)
    with asking.one_error(f"failed to read the output of {job}"):
        try:
            return _told(job, query)
        except endpoint.Nobody:
            return program.logs(job, [f"--{name}={value}" for name, value in query.items()])


def of_supervisor(job: str, query: dict[str, Any], at: endpoint.Endpoint) -> str:
    """The output as the supervisor at that place gives it."""
    with asking.one_error(f"failed to read the output of {job}"):
        return _told(job, query, at)


def _told(job: str, query: dict[str, Any], at: Optional[endpoint.Endpoint] = None) -> str:
    words = "&".join(f"{name}={value}" for name, value in query.items())
    reply = asking.once("GET", f"/v1/jobs/{quoted(job)}/logs?{words}", at=at)
    if not reply.is_good:
        raise asking.refusal(f"/v1/jobs/{quoted(job)}/logs", reply.reason(), reply.status)
    return reply.text.decode("utf-8", "replace")
