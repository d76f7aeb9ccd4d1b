"""Lines on the channel: one JSON object with one key each."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The longest line, newline included.
LONGEST = 16 * 1024 * 1024

#: JSON in one line; what is no JSON raises.
encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


_scan = json.JSONDecoder().scan_once


def decode(line: bytes) -> dict[str, Any]:
    r"""A line of the supervisor.

    >>> decode(b'{"ping":{}}')
    {'ping': {}}
    """
    found: dict[str, Any] = _scan(line.decode("utf-8", "surrogatepass"), 0)[0]
    return found


def strict_json(value: Any) -> str:
    """JSON that every other language can read, or a TypeError that says why there is none.

    >>> strict_json({"a": [1, None]})
    '{"a":[1,null]}'
    """
    try:
        text = encode(value)
        # Half of a surrogate pair has no UTF-8.
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"not JSON: {error}") from None
    return text


def frame(name: str, fields: dict[str, Any]) -> bytes:
    r"""A whole line.

    >>> frame("ready", {})
    b'{"ready":{}}\n'
    """
    return line(encode({name: fields}))


def line(text: str) -> bytes:
    """The text as a line. Halves of surrogate pairs, which would be no JSON, become question marks."""
    return (text + "\n").encode("utf-8", "replace")
