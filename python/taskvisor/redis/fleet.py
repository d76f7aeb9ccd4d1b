"""The supervisors that share a Redis: which take jobs of a queue, and which classes their workers know."""

from __future__ import annotations

import json
import time

from ..client import names
from . import connection
from .link import Link, Refused, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

#: A supervisor that was silent for longer has missed a sign of life.
_SILENT_SECONDS = 40.0
#: Limit in seconds for the answer: a put must not wait for what is only a warning.
_PATIENCE_SECONDS = 0.5
#: What was found right is looked at again after so many seconds, and so many names are remembered.
_AGAIN_SECONDS, _MOST = 60.0, 10_000


class Sign:
    """The last sign of life of a supervisor."""

    def __init__(self, told: list[Any], now: float) -> None:
        try:
            found = json.loads(text(told[2]))
        except ValueError:
            found = {}
        #: Its name.
        self.instance: str = text(told[0])
        #: The host that it runs on.
        self.host: Optional[str] = found.get("host")
        #: Whether it lives, and does not stop.
        self.takes: bool = now - float(text(told[1]) or 0) <= _SILENT_SECONDS and not found.get("stopping")
        #: Its pools, as `GET /v1/fleet` has them.
        self.pools: list[dict[str, Any]] = found.get("pools") or []


def supervisors(link: Link) -> Optional[list[Sign]]:
    """Those of which a sign of life is kept; None if the server does not answer soon."""
    connection.call.end = time.monotonic() + _PATIENCE_SECONDS
    try:
        now, told = link.call("fleet", 0)
        return [Sign(one, int(now) / 1000) for one in told]
    except (link.errors.RedisError, OSError, Refused, ValueError):
        return None
    finally:
        connection.call.end = None


class Served:
    """Says of new jobs what keeps them from running, as a supervisor does in its answer to a put."""

    def __init__(self) -> None:
        #: When a queue with a class was found right, by `time.monotonic`.
        self._right: dict[tuple[str, str], float] = {}

    def notes(self, link: Link, jobs: list[dict[str, Any]]) -> list[dict[str, str]]:
        """The notes of these jobs: none where that cannot be known, as a wrong warning is worse."""
        now = time.monotonic()
        wanted = {(job["queue"], job["class"]) for job in jobs}
        wanted = {one for one in wanted if now - self._right.get(one, -_AGAIN_SECONDS) >= _AGAIN_SECONDS}
        if not wanted:
            return []
        signs = supervisors(link)
        if signs is None:
            return []
        if len(self._right) > _MOST:
            self._right = {}
        self._right.update((one, now) for one in wanted)
        pools = [pool for sign in signs if sign.takes for pool in sign.pools]
        found = (_note(link.name, pools, *one) for one in sorted(wanted))
        return [note for note in found if note is not None]


def _note(place: str, pools: list[dict[str, Any]], queue: str, class_name: str) -> Optional[dict[str, str]]:
    takers = [pool for pool in pools if queue in pool["queues"]]
    if not takers:
        queues = sorted({queue for pool in pools for queue in pool["queues"]})
        return {"queue": queue, "note": f"no supervisor on {place} takes jobs from queue '{queue}': what is put there waits",
                "hint": names.suggestion(queue, queues) or "start one there: taskvisor start -b URL"}
    known = [pool.get("classes") or [] for pool in takers]
    if not all(known) or any(class_name in classes for classes in known):
        return None
    return {"queue": queue, "class": class_name, "note": f"no worker here knows the class '{class_name}': its jobs come back "
            "later, and are held in the end",
            "hint": names.suggestion(class_name, sorted({name for classes in known for name in classes})) or ""}
