"""Values that JSON has not, as JSON: dates, numbers, paths, sets, bytes, dataclasses, models, and types of the application.

Each becomes an object with the key `$taskvisor`, which names what it is, and its `value`. What is JSON already stays as
it is, and costs nothing more. No module is imported because data names it.
"""

from __future__ import annotations

import sys
from functools import lru_cache

from ..errors import DataMismatch
from . import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

#: The key that tells such an object from data of the application.
MARK = "$taskvisor"
#: The mark of a result that could not be kept; its value says why.
NOT_KEPT = "not kept"

def to_json(value: Any, name: str = "data") -> Any:
    """The value as JSON, itself if it is that; a TypeError with the path of what cannot be.

    >>> from datetime import date
    >>> to_json({"when": [date(2026, 1, 2)], "n": 1})
    {'when': [{'$taskvisor': 'date', 'value': '2026-01-02'}], 'n': 1}
    >>> to_json({"a": [object]})
    Traceback (most recent call last):
    ...
    TypeError: not JSON: data.a[0]: type
    """
    try:
        if not _Encoders.of_json and frames.MARKED not in frames.encode(value):
            _strict(value, name)
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        converted = _convert(value)
    except RecursionError:
        converted = value
    _strict(converted, name)
    return converted


def _strict(value: Any, name: str) -> None:
    """A TypeError if the value is not JSON, or would be less in JSON: of two keys with the same text one is lost."""
    frames.strict_json(value, name)
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if len(part) > 1 and not all(type(key) is str for key in part):
                _no_twins(part, name)
            left.extend(part.values())
        elif isinstance(part, (list, tuple)):
            left.extend(part)


def _no_twins(value: dict[Any, Any], name: str) -> None:
    known: dict[str, Any] = {}
    for key in value:
        # As an encoder writes it: an enum that is a `str` has a `str()` of its own.
        written = str.__str__(key) if isinstance(key, str) else frames.encode(key)
        if written in known:
            raise TypeError(f"not JSON: {name}: a dict with the keys {known[written]!r} and {key!r}, which are the same in JSON")
        known[written] = key


def from_json(value: Any) -> Any:
    """The value that `to_json` was given.

    >>> from_json({"when": [{"$taskvisor": "date", "value": "2026-01-02"}]})
    {'when': [datetime.date(2026, 1, 2)]}
    """
    return _from_json(value, list)


def _from_json(value: Any, sequence: Callable[[Any], Any]) -> Any:
    """The value, with `sequence` for its lists: what is in a set was a tuple, as a list cannot be there."""
    if isinstance(value, list):
        return sequence([_from_json(part, sequence) for part in value])
    if not isinstance(value, dict):
        return value
    if MARK in value:
        return _revive(value, sequence)
    return {key: _from_json(part, sequence) for key, part in value.items()}


def _convert(value: Any) -> Any:
    kind: Any = type(value)
    if kind in (str, int, float, bool) or value is None:
        return value
    for base in kind.__mro__ if _own else ():
        own = _own.get(base)
        if own is not None:
            return {MARK: own.name, "value": _convert(own.encode(value))}
    # What is JSON by itself is so beside a date as well, whatever it is besides: an enum that is a str, a namedtuple.
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, dict):
        plain = {key: _convert(part) for key, part in value.items()}
        return {MARK: "dict", "value": plain} if MARK in plain else plain
    if isinstance(value, (list, tuple)):
        return [_convert(part) for part in value]
    if _is_enum(kind):
        return {MARK: "enum", "type": _path(kind), "value": _convert(value.value)}
    for base in kind.__mro__:
        known = _KNOWN.get((base.__module__.split(".")[0], base.__name__))
        if known is not None:
            zone = getattr(getattr(value, "tzinfo", None), "key", None) if known[0] in ("datetime", "time") else None
            named = {"zone": zone} if isinstance(zone, str) else {}
            return {MARK: known[0], "value": _convert(known[1](value)), **named}
    if hasattr(kind, "__dataclass_fields__"):
        fields = {name: getattr(value, name) for name in _fields(kind)}
        return {MARK: "dataclass", "type": _path(kind), "value": _convert(fields)}
    if hasattr(kind, "model_dump") and hasattr(kind, "model_validate"):
        return {MARK: "model", "type": _path(kind), "value": _dumped(value)}
    return value


def _revive(value: dict[str, Any], sequence: Callable[[Any], Any]) -> Any:
    what, inner = value[MARK], value.get("value")
    if what == "dict" and isinstance(inner, dict):
        return {key: _from_json(part, sequence) for key, part in inner.items()}
    for own in _own.values():
        if own.name == what:
            # Code of the application: what it raises is its own, and may pass.
            return own.decode(from_json(inner))
    kind: Any = _loaded(str(value.get("type"))) if what in ("dataclass", "model", "enum") else None
    try:
        if what in _READERS:
            made = _READERS[what](inner)
            return _in_zone(made, value["zone"]) if "zone" in value else made
        if what == "dataclass" and hasattr(kind, "__dataclass_fields__"):
            return kind(**_from_json(inner, sequence))
        if what == "model" and hasattr(kind, "model_validate"):
            return kind.model_validate_json(frames.encode(inner), **_NAMES if _knows_names(kind) else {})
        if what == "enum" and _is_enum(kind):
            return _member(kind, inner)
    except DataMismatch:
        raise
    except Exception as error:
        # The same data would fail the same way again.
        raise DataMismatch(f"a value of type {value.get('type') or what!r} cannot be made here: {type(error).__name__}: "
                           f"{error}") from error
    raise DataMismatch(f"a value of type {value.get('type') or what!r} cannot be made here: load the module that has it, or "
                    "register it with taskvisor.encoder")


def _in_zone(value: Any, zone: str) -> Any:
    """A datetime or a time in the zone that it had, if this machine knows that; the moment is the same without."""
    try:
        from zoneinfo import ZoneInfo

        known = ZoneInfo(zone)
    except (ImportError, LookupError, ValueError, OSError):
        return value
    if not hasattr(value, "astimezone"):
        return value.replace(tzinfo=known)
    same = (value.replace(tzinfo=known, fold=fold) for fold in (0, 1))
    # An hour that the clock leaves out stays as it was.
    return next((one for one in same if one.utcoffset() == value.utcoffset()), None) or value.astimezone(known)


@lru_cache(maxsize=256)
def _fields(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass by which one is made again; a TypeError if it needs more than it keeps."""
    import dataclasses
    import inspect

    fields = tuple(field.name for field in dataclasses.fields(kind) if field.init)
    needed = [name for name, one in inspect.signature(kind).parameters.items()
              if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    lost = [name for name in needed if name not in fields]
    if lost:
        raise TypeError(f"not JSON: the dataclass {_path(kind)} does not keep what it is made of: {', '.join(lost)}; "
                        "say how it is written by taskvisor.encoder")
    return fields


#: How a model is read: by the names of its fields, and with all keys by their aliases, as older versions wrote it.
_NAMES = {"by_name": True, "by_alias": True}


def _knows_names(kind: Any) -> bool:
    """Whether this pydantic, from 2.11 on, finds fields that have an alias by their names, too."""
    import inspect

    return "by_name" in inspect.signature(kind.model_validate_json).parameters


def _dumped(model: Any) -> Any:
    """A model as JSON that it can be read from again: without what it computes; a TypeError if something would be lost."""
    kind = type(model)
    try:
        dumped = model.model_dump(mode="json", round_trip=True, by_alias=not _knows_names(kind))
    except Exception as error:
        raise TypeError(f"not JSON: the model {_path(kind)}: {type(error).__name__}: {error}") from error
    if "***" in repr(dumped) and _has_secret(model.model_dump(round_trip=True)):
        raise TypeError(f"not JSON: the model {_path(kind)} has a secret, of which it writes only stars")
    return dumped


def _has_secret(value: Any) -> bool:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(_has_secret, value))
    return hasattr(value, "get_secret_value")


def _member(kind: Any, inner: Any) -> Any:
    """The member of an enum with this value, which may have been a tuple."""
    try:
        return kind(from_json(inner))
    except ValueError:
        return kind(_from_json(inner, tuple))


def _path(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _loaded(path: str) -> Any:
    """The type at this path, if its module is loaded."""
    module, _, name = path.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None


def _is_enum(kind: Any) -> bool:
    enum = sys.modules.get("enum")
    return enum is not None and isinstance(kind, type) and issubclass(kind, enum.Enum)


def _base64(value: bytes) -> str:
    import base64

    return base64.b64encode(value).decode()


def _read(module: str, name: str) -> Callable[[Any], Any]:
    """Reads a value of a type of the standard library, whose module is imported when it is needed."""
    def read(inner: Any) -> Any:
        made: Any = __import__(module)
        for part in name.split("."):
            made = getattr(made, part)
        return made(*inner) if isinstance(inner, list) else made(inner)
    return read


#: By the package and the name of a type: what it is called, and how its value is written.
_KNOWN: dict[tuple[str, str], tuple[str, Callable[[Any], Any]]] = {
    ("datetime", "datetime"): ("datetime", lambda value: value.isoformat()),
    ("datetime", "date"): ("date", lambda value: value.isoformat()),
    ("datetime", "time"): ("time", lambda value: value.isoformat()),
    ("datetime", "timedelta"): ("timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    ("decimal", "Decimal"): ("decimal", str),
    ("uuid", "UUID"): ("uuid", str),
    ("pathlib", "PurePath"): ("path", str),
    ("builtins", "set"): ("set", list),
    ("builtins", "frozenset"): ("frozenset", list),
    ("builtins", "bytes"): ("bytes", _base64),
    ("builtins", "bytearray"): ("bytes", _base64),
}

#: By what a value is called: how it is made of what was written.
_READERS: dict[str, Callable[[Any], Any]] = {
    "datetime": _read("datetime", "datetime.fromisoformat"),
    "date": _read("datetime", "date.fromisoformat"),
    "time": _read("datetime", "time.fromisoformat"),
    "timedelta": _read("datetime", "timedelta"),
    "decimal": _read("decimal", "Decimal"),
    "uuid": _read("uuid", "UUID"),
    "path": _read("pathlib", "Path"),
    "set": lambda inner: set(_from_json(inner, tuple)),
    "frozenset": lambda inner: frozenset(_from_json(inner, tuple)),
    "bytes": _read("base64", "b64decode"),
}


class _Own:
    """A type of the application."""

    __slots__ = ("decode", "encode", "name")

    def __init__(self, name: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
        self.name = name
        self.encode = encode
        self.decode = decode


_own: dict[type, _Own] = {}


class _Encoders:
    #: Whether one is for a type that is JSON by itself, as a namedtuple: then every value has to be looked through.
    of_json = False


def encoder(kind: type, encode: Callable[[Any], Any], decode: Callable[[Any], Any], *,
            name: Optional[str] = None) -> None:
    """Lets values of a type be arguments and results: `encode` makes JSON of one, `decode` makes one of that JSON.

    Register it in a module that both the application and its workers load. `name`, by default the path of the type,
    tells such values from others for as long as jobs with them are kept.

    >>> from taskvisor.protocol.values import from_json, to_json
    >>> encoder(complex, lambda value: [value.real, value.imag], lambda parts: complex(*parts), name="complex")
    >>> from_json(to_json([1 + 2j]))
    [(1+2j)]
    """
    chosen = name if name is not None else _path(kind)
    taken = chosen in _READERS or chosen in ("dict", "dataclass", "model", "enum", NOT_KEPT) or any(
        own.name == chosen for other, own in _own.items() if _path(other) != _path(kind))
    if taken:
        raise ValueError(f"another type is called {chosen!r}: give encoder(..., name=...) another name")
    _own[kind] = _Own(chosen, encode, decode)
    _Encoders.of_json |= issubclass(kind, (str, int, float, dict, list, tuple))


# Users know it as taskvisor.encoder.
encoder.__module__ = "taskvisor"
