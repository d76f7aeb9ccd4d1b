"""Takes over the schedules in the code of a worker: `@job(cron=…)` becomes a recurring job of its supervisor.

Its name is ``code:POOL:CLASS``, so that `taskvisor recur list` shows where it comes from. One that the code of the pool
has no longer is removed. On a Redis another service may have a pool of that name: there its jobs have a tag that says which
supervisor it belongs to, and only that one removes it.
"""

from __future__ import annotations

import json
import os
import socket

from ..client import asking, endpoint
from ..client.endpoint import Busy, Nobody
from ..errors import PutError, SupervisorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: HTTP status of a supervisor whose broker has no recurring jobs, or is shared with no other supervisor.
_CANNOT = 501
#: Seconds to wait for an answer, as while the broker is away: the worker is not ready before. Less if nothing recurs.
_PATIENCE_SECONDS, _LITTLE = 10.0, 1.0


class Wrong(Exception):
    """A schedule that the supervisor refuses: the code is wrong."""


def take_over(wanted: dict[str, dict[str, Any]]) -> list[str]:
    """Has the supervisor put these jobs, by their classes, and no others of this pool. Returns what is wrong, in words."""
    path = os.environ["TASKVISOR_SOCKET"]
    place, begin, mark = endpoint.Unix(path), f"code:{os.environ.get('TASKVISOR_POOL', '')}:", _mark(path)
    try:
        return _exchange(place, begin, mark, {begin + name: _marked(order, mark) for name, order in wanted.items()})
    except (Nobody, Busy, asking.Lost, PutError, SupervisorError) as error:
        return [f"failed to take over the schedules of {', '.join(wanted)}: {error}"] if wanted else []


def _mark(path: str) -> str:
    """The tag that names the supervisor with this socket: the same after its restart."""
    return f"code@{socket.gethostname()}:{path}"


def _marked(order: dict[str, Any], mark: str) -> dict[str, Any]:
    return {**order, "job": {**order["job"], "tags": [*order["job"].get("tags", ()), mark]}}


def _exchange(place: endpoint.Unix, begin: str, mark: str, wanted: dict[str, dict[str, Any]]) -> list[str]:
    patience = _PATIENCE_SECONDS if wanted else _LITTLE
    found = asking.once("GET", "/v1/recurring", b"", patience, place)
    if found.status == _CANNOT and not wanted:
        return []
    _must_be_good(found)
    known = {record["recurring"]["name"]: record["recurring"] for record in found.value}
    left = [name for name in known if name.startswith(begin) and name not in wanted]
    if not all(_has(known[name], mark) for name in left):
        # In a store of its own it may have another host name than before, as in a new container.
        if asking.once("GET", "/v1/fleet", b"", patience, place).status != _CANNOT:
            left = [name for name in left if _has(known[name], mark)]
    for name in left:
        asking.once("POST", f"/v1/recurring/{_encoded(name)}/remove", b"{}", patience, place)
    for name, order in wanted.items():
        # The same schedule with the mark of another is put again: it stays due when it was.
        if name in known and _has(known[name], mark) and _is_same(known[name], order):
            continue
        reply = asking.once("POST", f"/v1/recurring/{_encoded(name)}", json.dumps(order).encode(), patience, place)
        if reply.status == 400:
            raise Wrong(f"the schedule of the job {name[len(begin):]!r} is refused: {reply.reason()}")
        _must_be_good(reply)
    return []


def _has(known: dict[str, Any], mark: str) -> bool:
    return mark in known["job"].get("tags", ())


def _must_be_good(reply: asking.Reply) -> None:
    if not reply.is_good:
        raise SupervisorError(reply.reason(), reply.status)


def _is_same(known: dict[str, Any], order: dict[str, Any]) -> bool:
    cron = known["schedule"].get("cron") or {}
    job = known["job"]
    return ({"zone": "UTC", **cron} == {"zone": "UTC", **order["schedule"]["cron"]}
            and (job["queue"], job["class"]) == (order["job"]["queue"], order["job"]["class"]))


def _encoded(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
