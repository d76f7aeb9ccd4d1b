"""Finds the part of a value that is not JSON, for error messages. Imported only when encoding has failed."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Optional

#: Longer paths are cut in the middle.
_LONGEST = 400
#: Most containers to search.
_MOST = 1_000_000


def where(value: Any, name: str) -> Optional[str]:
    """The path to the first part that is not JSON, and its type; None if there is none.

    >>> from datetime import date
    >>> where({"items": [{"when": date.min}]}, "result")
    'result.items[0].when: date'
    >>> where([float("nan")], "result"), where({(1, 2): 3}, "result"), where({"a b": 1j}, "result")
    ('result[0]: nan', 'result: a key of type tuple', "result['a b']: complex")
    """
    # Without recursion: the value may be nested more deeply than Python's stack allows. The iterators keep the path.
    fault = _fault_of(value)
    if fault is not None:
        return f"{name}: {fault}"
    path: list[str] = []
    open_ones = [_parts(value)]
    above = [id(value)]
    inside = {id(value)}
    seen: set[int] = set()
    for _ in range(_MOST):
        step, part = next(open_ones[-1], (None, None))
        if step is None:
            open_ones.pop()
            inside.discard(above[-1])
            seen.add(above.pop())
            if not open_ones:
                return None
            path.pop()
            continue
        fault = "a part of itself" if id(part) in inside and _is_container(part) else _fault_of(part)
        if fault is not None:
            return f"{_cut(name + ''.join(path) + step)}: {fault}"
        if _is_container(part) and id(part) not in seen:
            path.append(step)
            above.append(id(part))
            inside.add(id(part))
            open_ones.append(_parts(part))
    return None


def _is_container(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            plain = isinstance(key, str) and key.isidentifier()
            yield f".{key}" if plain else f"[{_short(key)}]", part
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield f"[{index}]", part


def _fault_of(value: Any) -> Optional[str]:
    """Why the value itself is not JSON, apart from its parts."""
    if value is None or isinstance(value, (bool, int)):
        return None
    if isinstance(value, str):
        return _fault_of_text(value)
    if isinstance(value, float):
        return None if math.isfinite(value) else repr(float(value))
    if isinstance(value, dict):
        return next(filter(None, map(_fault_of_key, value)), None)
    return None if isinstance(value, (list, tuple)) else _name(type(value))


def _fault_of_key(key: Any) -> Optional[str]:
    if isinstance(key, str):
        fault = _fault_of_text(key)
        return fault and f"a key with {fault}"
    if isinstance(key, float) and not math.isfinite(key):
        return f"the key {key!r}"
    return None if key is None or isinstance(key, (bool, int, float)) else f"a key of type {_name(type(key))}"


def _fault_of_text(text: str) -> Optional[str]:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "text with half of a surrogate pair"
    return None


def _name(kind: type) -> str:
    plain = kind.__module__ in ("builtins", "datetime", "decimal", "uuid", "__main__")
    return kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"


def _short(key: Any) -> str:
    shown = ascii(key)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _cut(path: str) -> str:
    half = _LONGEST // 2
    return path if len(path) <= _LONGEST else f"{path[:half]} ... {path[-half:]}"
