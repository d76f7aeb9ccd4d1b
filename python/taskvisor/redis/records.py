"""A job's record, as the API has it, of the fields of its hash in Redis."""

from __future__ import annotations

import json

from .history import history, rfc3339, worker
from .link import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

#: The fields of a job's hash that are read.
FIELDS = ("klass", "queue", "from", "state", "canceling", "held", "priority", "tags", "attempt", "policy", "limit",
          "crashes", "interrupted", "unknown", "put_at", "put_by", "recurring", "due", "started", "ended", "instance",
          "hold", "progress", "result", "why", "failure", "begin_within", "data", "exec", "life", "renewals", "renewed",
          "expires", "worker", "held_by", "happened")
_STATES = {"running": "running", "scheduled": "delayed", "depends": "depends", "complete": "complete", "failed": "failed",
           "canceled": "canceled"}
#: What only a supervisor shows of a job.
LACKS = ("forensics", "exec")
#: The states in which jobs end.
ENDED = ("complete", "failed", "held", "canceled")
#: Deeper data is not given as JSON.
_DEEPEST = 100


def record(job: str, answer: list[Any]) -> dict[str, Any]:
    """The record: all but its program and its forensics, which only a supervisor shows, as `lacks` says."""
    values, tracked, needs, dependents = answer[:4]
    kept = {name: text(value) for name, value in zip(FIELDS, values) if value is not None}
    state = _state(kept)
    is_leased = state in ("running", "canceling")
    holder = kept.get("worker") if is_leased and kept.get("held_by") != kept.get("worker") else None
    found: dict[str, Any] = {
        "id": job, "queue": kept.get("queue") or kept.get("from", ""), "class": kept.get("klass", ""), "state": state,
        "priority": _number(kept, "priority"), "tags": _json(kept, "tags") or [], "tracked": bool(tracked),
        "attempt": _number(kept, "attempt"), "crashes": _number(kept, "crashes"),
        "interruptions": _number(kept, "interrupted"), "unknown_class": _number(kept, "unknown"),
        "fence": _number(kept, "hold"), "renewals": 0 if holder else _number(kept, "renewals"), "lacks": list(LACKS),
    }
    found.update(_payload(values[FIELDS.index("data")], kept.get("exec") == "1"))
    policy = _json(kept, "policy")
    if policy:
        found.update(retries=policy["retries"], retry_delay=_seconds(policy["delay"]), retry_cap=_seconds(policy["cap"]))
    if "limit" in kept:
        found["time_limit"] = int(kept["limit"]) / 1e9
    found.update(_times(kept, state))
    for name in ("put_by", "recurring"):
        if kept.get(name):
            found[name] = kept[name]
    if holder:
        found["holder"] = holder
    elif kept.get("instance") and (is_leased or state in ENDED):
        found["instance"] = kept["instance"]
    if _json(kept, "life") and not holder:
        found["worker"] = worker(_json(kept, "life"))
    if kept.get("happened"):
        found["history"] = history(kept["happened"])
    if "result" in kept:
        found["result"] = json.loads(kept["result"])
    failure = _json(kept, "why") or _json(kept, "failure")
    if failure and "group" in failure:
        found["failure"] = failure
    progress = _json(kept, "progress")
    if progress or state == "complete":
        found["progress"] = {**(progress or {}), **({"fraction": 1.0} if state == "complete" and progress else {})}
    if needs:
        found["depends"] = [{"job": text(need), "state": text(word)} for need, word, _ in
                            sorted(needs, key=lambda need: float(text(need[2]) or 0))]
    if dependents:
        found["dependents"] = [text(other) for other in dependents]
    return {name: value for name, value in found.items() if value != {}}


def _state(kept: dict[str, str]) -> str:
    word = kept.get("state", "")
    if word == "running" and "canceling" in kept:
        return "canceling"
    if word == "failed" and kept.get("held") == "1":
        return "held"
    return _STATES.get(word, "waiting")


def _times(kept: dict[str, str], state: str) -> dict[str, Any]:
    wanted = {"put_at": "put_at", "started_at": "started"}
    if state in ("delayed", "depends"):
        wanted["due_at"] = "due"
    if state in ENDED:
        wanted["ended_at"] = "ended"
    wanted["renewed_at"] = "renewed"
    found = {name: int(kept[field]) for name, field in wanted.items() if kept.get(field, "").isdigit()}
    if state in ("waiting", "delayed", "depends") and kept.get("attempt") == "0" and "begin_within" in kept:
        found["begin_by"] = found.get("put_at", 0) + int(kept["begin_within"])
    if state in ("running", "canceling") and kept.get("expires"):
        found["expires_at"] = int(float(kept["expires"]) * 1000)
    shown: dict[str, Any] = {}
    for name, at in found.items():
        shown[f"{name}_ms"], shown[name] = at, rfc3339(at)
    return shown


def _payload(data: Optional[bytes], is_program: bool) -> dict[str, Any]:
    """The data, or what is no JSON as `raw`: text, or in base64 where it is not UTF-8."""
    given = b"" if data is None else data
    if is_program:
        return {}  # Its stored form is the supervisor's own.
    try:
        return {"data": json.loads(given.decode())}
    except (ValueError, RecursionError):
        pass
    try:
        return {"raw": given.decode()}
    except ValueError:
        import base64

        return {"raw": {"b64": base64.b64encode(given).decode()}}


def _number(kept: dict[str, str], name: str) -> int:
    found = kept.get(name, "")
    return int(found) if found.lstrip("-").isdigit() else 0


def _json(kept: dict[str, str], name: str) -> Any:
    try:
        return json.loads(kept.get(name) or "null")
    except ValueError:
        return None


def _seconds(kept: dict[str, int]) -> float:
    return kept["secs"] + kept["nanos"] / 1e9
