"""Takes over the schedules in the code of a worker: `@job(cron=…)` becomes a recurring job of its supervisor.

Its name is ``code:POOL:CLASS``, so that `taskvisor recur list` shows where it comes from. Pools often share their code:
one of them has the schedule. One that the code of its pool has no longer, or whose pool is gone, is removed. On a Redis
another service may have a pool of that name: there its jobs have a tag that says which supervisor it belongs to, and only
that one removes it.
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
    from typing import Any, Optional

#: HTTP status of a supervisor whose broker has no recurring jobs, or is shared with no other supervisor.
_CANNOT = 501
#: Seconds to wait for an answer, as while the broker is away: the worker is not ready before. Less if nothing recurs.
_PATIENCE_SECONDS, _LITTLE = 10.0, 1.0


class Wrong(Exception):
    """A schedule that the supervisor refuses: the code is wrong."""


def take_over(wanted: dict[str, dict[str, Any]]) -> list[str]:
    """Has the supervisor put these jobs, by their classes, and no others of this pool. Returns what is wrong, in words."""
    path = os.environ["TASKVISOR_SOCKET"]
    place, pool, mark = endpoint.Unix(path), os.environ.get("TASKVISOR_POOL", ""), _mark(path)
    orders = {_name(pool, job): _marked(order, mark) for job, order in wanted.items()}
    try:
        return _Exchange(place, pool, mark, _PATIENCE_SECONDS if wanted else _LITTLE).run(orders)
    except (Nobody, Busy, asking.Lost, PutError, SupervisorError) as error:
        return [f"failed to take over the schedules of {', '.join(wanted)}: {error}"] if wanted else []


def _name(pool: str, job: str) -> str:
    return f"code:{pool}:{job}"


def _mark(path: str) -> str:
    """The tag that names the supervisor with this socket: the same after its restart."""
    return f"code@{socket.gethostname()}:{path}"


def _marked(order: dict[str, Any], mark: str) -> dict[str, Any]:
    return {**order, "job": {**order["job"], "tags": [*order["job"].get("tags", ()), mark]}}


class _Exchange:
    """The exchange of one pool with its supervisor."""

    def __init__(self, place: endpoint.Unix, pool: str, mark: str, patience: float):
        self.place, self.pool, self.mark, self.patience = place, pool, mark, patience

    def run(self, wanted: dict[str, dict[str, Any]]) -> list[str]:
        found = self.ask("GET", "/v1/recurring")
        if found.status == _CANNOT and not wanted:
            return []
        known = self.ours(found)
        if not known and not wanted:
            return []
        pools = {pool["name"] for pool in _good(self.ask("GET", "/v1/status")).value["pools"]}
        for name in known:
            of = _pool_of(name, pools)
            if of is None or of == self.pool and name not in wanted:
                self.remove(name)
        elsewhere = {_job(known[name]) for name in known if _pool_of(name, pools) not in (None, self.pool)}
        put = [name for name, order in wanted.items() if name in known or _job(order) not in elsewhere]
        for name in put:
            self.put(name, wanted[name], known.get(name))
        if put:
            self.leave_first({_job(wanted[name]) for name in put}, pools | {self.pool})
        return []

    def leave_first(self, jobs: set[tuple[str, str]], pools: set[str]) -> None:
        """Of pools that put the same at the same moment, the first by name keeps it."""
        # The last one to put sees what all have put, and no other looks again: so it removes those of others, too.
        others = {name: record for name, record in self.ours(self.ask("GET", "/v1/recurring")).items() if _job(record) in jobs}
        kept: set[tuple[str, str]] = set()
        for pool, name in sorted((_pool_of(name, pools) or "", name) for name in others):
            if pool and _job(others[name]) in kept:
                self.remove(name)
            elif pool:
                kept.add(_job(others[name]))

    def ask(self, method: str, route: str, body: bytes = b"") -> asking.Reply:
        return asking.once(method, route, body, self.patience, self.place)

    def ours(self, found: asking.Reply) -> dict[str, dict[str, Any]]:
        """The recurring jobs that come from the code of this supervisor's pools."""
        known = {record["recurring"]["name"]: record["recurring"] for record in _good(found).value}
        known = {name: record for name, record in known.items() if name.startswith("code:")}
        # In a store of its own it may have another host name than before, as in a new container.
        if all(_has(record, self.mark) for record in known.values()) or self.ask("GET", "/v1/fleet").status == _CANNOT:
            return known
        return {name: record for name, record in known.items() if _has(record, self.mark)}

    def remove(self, name: str) -> None:
        self.ask("POST", f"/v1/recurring/{_encoded(name)}/remove", b"{}")

    def put(self, name: str, order: dict[str, Any], known: Optional[dict[str, Any]]) -> None:
        # The same schedule with the mark of another is put again: it stays due when it was.
        if known is not None and _has(known, self.mark) and _is_same(known, order):
            return
        reply = self.ask("POST", f"/v1/recurring/{_encoded(name)}", json.dumps(order).encode())
        if reply.status == 400:
            raise Wrong(f"the schedule of the job {order['job']['class']!r} is refused: {reply.reason()}")
        _good(reply)


def _pool_of(name: str, pools: set[str]) -> Optional[str]:
    """The pool of a name, of those that there are: names of pools and of jobs may have colons."""
    return max((pool for pool in pools if name.startswith(_name(pool, ""))), key=len, default=None)


def _job(known: dict[str, Any]) -> tuple[str, str]:
    return known["job"]["queue"], known["job"]["class"]


def _has(known: dict[str, Any], mark: str) -> bool:
    return mark in known["job"].get("tags", ())


def _good(reply: asking.Reply) -> asking.Reply:
    if not reply.is_good:
        raise SupervisorError(reply.reason(), reply.status)
    return reply


def _is_same(known: dict[str, Any], order: dict[str, Any]) -> bool:
    cron = known["schedule"].get("cron") or {}
    return {"zone": "UTC", **cron} == {"zone": "UTC", **order["schedule"]["cron"]} and _job(known) == _job(order)


def _encoded(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
