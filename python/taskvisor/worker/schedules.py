"""Takes over the schedules in the code of a worker: `@job(cron=…)` becomes a recurring job of its supervisor.

Its name is ``code:POOL:CLASS``, so that `taskvisor recur list` shows where it comes from. One that the code of the pool
has no longer is removed.
"""

from __future__ import annotations

import json
import os

from ..client import asking, endpoint
from ..client.endpoint import Busy, Nobody
from ..errors import SupervisorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

#: HTTP status of a supervisor whose broker has no recurring jobs.
_CANNOT = 501


class Wrong(Exception):
    """A schedule that the supervisor refuses: the code is wrong."""


def is_first(worker: str) -> bool:
    """Whether this is the worker of its pool that takes schedules over: the template, or the first.

    >>> is_first("mail.1#7"), is_first("mail.0#1"), is_first("mail.11#7"), is_first("")
    (True, True, False, False)
    """
    return worker.partition("#")[0].rpartition(".")[2] in ("0", "1")


def take_over(wanted: dict[str, dict[str, Any]]) -> list[str]:
    """Has the supervisor put these jobs, by their classes, and no others of this pool. Returns what is wrong, in words."""
    socket, pool = os.environ.get("TASKVISOR_SOCKET"), os.environ.get("TASKVISOR_POOL", "")
    if not socket or not is_first(os.environ.get("TASKVISOR_WORKER", "")):
        return []
    begin = f"code:{pool}:"
    try:
        return _exchange(endpoint.Unix(socket), begin, {begin + name: order for name, order in wanted.items()})
    except (Nobody, Busy, asking.Lost, SupervisorError) as error:
        return [f"failed to take over the schedules of {', '.join(wanted)}: {error}"] if wanted else []


def _exchange(place: endpoint.Unix, begin: str, wanted: dict[str, dict[str, Any]]) -> list[str]:
    found = asking.once("GET", "/v1/recurring", at=place)
    if found.status == _CANNOT and not wanted:
        return []
    _must_be_good(found)
    known = {record["recurring"]["name"]: record["recurring"] for record in found.value}
    for name in known:
        if name.startswith(begin) and name not in wanted:
            asking.once("POST", f"/v1/recurring/{_encoded(name)}/remove", b"{}", at=place)
    for name, order in wanted.items():
        if _is_same(known.get(name), order):
            continue
        reply = asking.once("POST", f"/v1/recurring/{_encoded(name)}", json.dumps(order).encode(), at=place)
        if reply.status == 400:
            raise Wrong(f"the schedule of the job {name[len(begin):]!r} is refused: {reply.reason()}")
        _must_be_good(reply)
    return []


def _must_be_good(reply: asking.Reply) -> None:
    if not reply.is_good:
        raise SupervisorError(reply.reason(), reply.status)


def _is_same(known: Optional[dict[str, Any]], order: dict[str, Any]) -> bool:
    if known is None:
        return False
    cron = known["schedule"].get("cron") or {}
    job = known["job"]
    return ({"zone": "UTC", **cron} == {"zone": "UTC", **order["schedule"]["cron"]}
            and (job["queue"], job["class"]) == (order["job"]["queue"], order["job"]["class"]))


def _encoded(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
