"""Frames: lines with one JSON object with one key each. Encodes and decodes them."""

from __future__ import annotations

import json
from collections import deque
from functools import lru_cache

from ..errors import PutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

#: The longest line, newline included.
LONGEST = 16 * 1024 * 1024

#: Encodes JSON in one line; raises for values that are no JSON.
encode: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


#: The text of JSON has this where it may hold values that JSON has not: see `values`.
MARKED = '"$taskvisor"'

#: Text as JSON.
_quote = json.encoder.encode_basestring

_decoder: Any = json.JSONDecoder()
_scan = _decoder.scan_once


def decode(line: bytes) -> dict[str, Any]:
    r"""A line of the supervisor.

    >>> decode(b'{"ping":{}}')
    {'ping': {}}
    """
    text = line.decode("utf-8", "surrogatepass")
    try:
        found: dict[str, Any] = _scan(text, 0)[0]
    except RecursionError:
        found = _without_depth(text)
    if MARKED in text and "run" in found:
        found["run"]["job"]["marked"] = True
    return found


TOO_DEEP = "it is nested too deeply for Python"


def _without_depth(text: str) -> dict[str, Any]:
    """A frame whose data Python cannot read: the part before the data still says which job it is.

    >>> _without_depth('{"run":{"job":{"id":"a","fence":1,"data":[[]]}}}')
    {'unreadable': {'id': 'a', 'fence': 1}}
    """
    head, data, _ = text.partition(',"data":')
    if data:
        job: dict[str, Any] = _scan(head + "}}}", 0)[0]["run"]["job"]
        return {"unreadable": job}
    head = text.partition(',"ok":')[0]
    reply: dict[str, Any] = _scan(head + "}}", 0)[0]["reply"]
    return {"reply": {**reply, "error": f"the answer cannot be read: {TOO_DEEP}"}}


def refusal(job: dict[str, Any]) -> bytes:
    """The end of a job whose data cannot be read."""
    error = {"group": "RecursionError", "message": f"the data cannot be read: {TOO_DEEP}"}
    fields = {"job": job["id"], "fence": job["fence"], "outcome": "failed_for_good", "error": error}
    return frame("done", fields)


def strict_json(value: Any, name: str = "data") -> str:
    """JSON that every other language can read, or a TypeError with the path of the value that is not JSON.

    >>> strict_json({"a": [1, None]})
    '{"a":[1,null]}'
    >>> strict_json({"a": [1, {2}]}, "result")
    Traceback (most recent call last):
    ...
    TypeError: not JSON: result.a[1]: set
    """
    try:
        text = encode(value)
        # Half of a surrogate pair cannot be written as UTF-8.
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        from . import not_json

        raise TypeError(f"not JSON: {not_json.where(value, name) or error}") from None
    return text


def frame(name: str, fields: dict[str, Any]) -> bytes:
    r"""Writes a whole line.

    >>> frame("ready", {})
    b'{"ready":{}}\n'
    """
    return line(encode({name: fields}))


def log(job: str, text: str) -> bytes:
    r"""Writes a `log` frame: the same as `frame`, in a tenth of the time.

    >>> log("7", 'a "b"')
    b'{"log":{"job":"7","text":"a \\"b\\""}}\n'
    """
    return f"{_log_head(job)}{_quote(text)}}}}}\n".encode("utf-8", "replace")


@lru_cache(maxsize=1024)
def _log_head(job: str) -> str:
    return f'{{"log":{{"job":{_quote(job)},"text":'


def line(text: str) -> bytes:
    """The text as a line. Halves of surrogate pairs, which would be no JSON, become question marks."""
    return (text + "\n").encode("utf-8", "replace")


def split_lines(chunk: bytes, unfinished: list[bytes], lines: deque[bytes]) -> None:
    r"""Adds the whole lines to `lines` and keeps the rest in `unfinished`.

    >>> rest, lines = [b"a"], deque()
    >>> split_lines(b"b\n\nc\nd", rest, lines)
    >>> rest, list(lines)
    ([b'd'], [b'ab', b'c'])
    """
    end = chunk.rfind(b"\n")
    if end < 0:
        unfinished.append(chunk)
        return
    whole = chunk[:end]
    if unfinished:
        whole = b"".join((*unfinished, whole))
        unfinished.clear()
    lines.extend(line for line in whole.split(b"\n") if line)
    if end + 1 < len(chunk):
        unfinished.append(chunk[end + 1:])


def stopped_in(reply: dict[str, Any]) -> float:
    """The seconds in the reply to `stopped`. A supervisor that does not know this call knows of no stop.

    >>> stopped_in({"n": 1, "ok": {"seconds": 8.5}}), stopped_in({"n": 1, "error": "no verb is called so"})
    (8.5, 0.0)
    """
    return float((reply.get("ok") or {}).get("seconds", 0.0))


def answer(verb: str, reply: dict[str, Any]) -> Any:
    """The content of a reply, or a PutError.

    >>> answer("put", {"n": 1, "ok": {"ids": ["7"]}})
    {'ids': ['7']}
    """
    if "error" in reply:
        raise PutError(f"failed to {verb}: {reply['error']}")
    return reply.get("ok")
