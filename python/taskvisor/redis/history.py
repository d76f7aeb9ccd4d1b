"""The history of a job as the API has it, of the lines that are kept in Redis."""

from __future__ import annotations

import json
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def rfc3339(millis: int) -> str:
    """A time as the API writes it.

    >>> rfc3339(1795894517755)
    '2026-11-28T19:35:17.755Z'
    """
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(millis // 1000)) + f".{millis % 1000:03d}Z"


def worker(kept: dict[str, Any]) -> dict[str, Any]:
    """A life in a slot; the number of the keeper is not shown."""
    return {name: kept[name] for name in ("slot", "generation") if name in kept}


def history(lines: str) -> list[dict[str, Any]]:
    """The entries, oldest first: without forensics, and without what only scripts of other programs have noted.

    >>> history('{"at":0,"retried":{"by":"uid 0","from":"failed"}}')
    [{'at': '1970-01-01T00:00:00.000Z', 'at_ms': 0, 'kind': 'retried', 'by': 'uid 0', 'from_state': 'failed'}]
    """
    return [entry for entry in map(_entry, lines.splitlines()) if entry]


def _entry(line: str) -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads(line)
        at = int(kept.pop("at"))
        (kind, told), = kept.items()
        fields: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
    except (ValueError, KeyError, AttributeError):
        return {}  # Of a later version: a supervisor of that shows it.
    entry: dict[str, Any] = {"at": rfc3339(at), "at_ms": at, "kind": kind}
    if kind == "attempt":
        return {**entry, "attempt": _attempt(fields)}
    names = {"from": "from_state" if kind == "retried" else "from_queue", "to": "to_queue"}
    entry.update((names.get(name, name), value) for name, value in fields.items())
    if "result" in fields:
        try:
            entry["result"] = json.loads(fields["result"])
        except ValueError:
            del entry["result"]
    return entry


def _attempt(fields: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in fields.items():
        if name.endswith("_at"):
            shown[name], shown[f"{name}_ms"] = rfc3339(value), value
        elif name == "counts":
            shown["unspent"] = value
        elif name == "worker":
            shown[name] = worker(value)
        elif name != "forensics":
            shown[name] = value
    return shown
