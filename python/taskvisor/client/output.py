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
    if place is None and stand_in.current.one is not None:
        # A supervisor that happens to run here knows nothing of the jobs of a test.
        raise NotImplementedError("what a job prints in this process goes where it always goes: for the output of jobs use "
                                  "taskvisor.testing.Server")
    chosen = {name: value for name, value in wanted.items() if value is not None}
    query = "&".join(f"{name}={value}" for name, value in chosen.items())
    with asking.one_error(f"failed to read the output of {job}"):
        try:
            reply = asking.once("GET", f"/v1/jobs/{quoted(job)}/logs?{query}", at=getattr(place, "at", None))
        except endpoint.Nobody:
            if place is not None:
                raise
            return program.logs(job, [f"--{name}={value}" for name, value in chosen.items()])
    if not reply.is_good:
        raise asking.refusal(f"/v1/jobs/{quoted(job)}/logs", reply.reason(), reply.status)
    return reply.text.decode("utf-8", "replace")
