"""Checks of values that an application gives: numbers, names, sizes, ids.

Each returns the value or raises a TypeError or ValueError that names the argument. What the supervisor would refuse is
refused here, where the mistake was made. Nothing here depends on the rest of the package.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Optional

#: The supervisor's own limits, checked here where the mistake was made.
_LONGEST_SECONDS = 36_525 * 24 * 3600
_LONGEST_NAME = 256
_LARGEST = 2**63 - 1
_LARGEST_COUNT = 2**32 - 1


def seconds(name: str, value: float) -> float:
    """Returns the value, if it is a valid number of seconds to wait.

    >>> seconds("after", 1.5)
    1.5
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be a number of seconds from 0 on, not {value!r}")
    if value > _LONGEST_SECONDS:
        raise ValueError(f"{name} must be at most {_LONGEST_SECONDS} seconds (a hundred years), not {value!r}")
    return value


def limit(name: str, value: float) -> float:
    """Returns the value, if it is a valid time limit in seconds.

    >>> limit("time_limit", 60)
    60
    >>> limit("time_limit", 0)
    Traceback (most recent call last):
    ...
    ValueError: time_limit must be more than 0 seconds: no job could run. Leave it out for no limit
    """
    if seconds(name, value) == 0:
        raise ValueError(f"{name} must be more than 0 seconds: no job could run. Leave it out for no limit")
    return value


def name_of(what: str, value: object) -> str:
    """Returns the value, if it can be the name of a queue or a class.

    >>> name_of("queue", "mail")
    'mail'
    >>> name_of("queue", "")
    Traceback (most recent call last):
    ...
    ValueError: queue must be a name, not ''
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a name, not {value!r}")
    if not value:
        raise ValueError(f"{what} must be a name, not ''")
    length = len(value.encode("utf-8", "replace"))
    if length > _LONGEST_NAME:
        raise ValueError(f"{what} must have {_LONGEST_NAME} bytes at most, not {length}: {value[:32]!r}...")
    # The same rule as is_control in Rust (category Cc), and surrogates (Cs), which UTF-8 cannot hold.
    if any(letter < " " or "\x7f" <= letter <= "\x9f" or "\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{what} must not hold newlines or other control characters: {value!r}")
    return value


_UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
          "TiB": 2**40}


def size(name: str, value: object) -> int:
    """Returns the value as a number of bytes.

    >>> size("memory_limit", "512MB"), size("memory_limit", 4096)
    (512000000, 4096)
    """
    digits = str(value).rstrip("kKMGTiB")
    unit = str(value)[len(digits):]
    has_unit = unit in _UNITS and isinstance(value, str) or unit == "" and isinstance(value, int)
    if has_unit and digits.isdecimal() and int(digits) > 0:
        amount = int(digits) * _UNITS.get(unit, 1)
        if amount > _LARGEST:
            raise ValueError(f"{name} must be less than 2**63 bytes, not {value!r}")
        return amount
    raise ValueError(f"{name} must be a size from 1 on, like '512MB', '1GiB' or 100000, not {value!r}")


def whole(name: str, value: int, least: int = 0) -> int:
    """Returns the value, if it is a whole number of at least `least`.

    >>> whole("retries", 3)
    3
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST_COUNT:
        raise ValueError(f"{name} must be a whole number from {least} to {_LARGEST_COUNT}, not {value!r}")
    return value


def priority(name: str, value: int) -> int:
    """Returns the value, if it is a valid priority: a whole number of 32 bits, also below 0.

    >>> priority("priority", -3)
    -3
    >>> priority("priority", "high")
    Traceback (most recent call last):
    ...
    TypeError: priority must be a whole number, not 'high'
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if not -2**31 <= value < 2**31:
        raise ValueError(f"{name} must be a whole number from {-2**31} to {2**31 - 1}, not {value!r}")
    return value


def job_id(name: str, value: str) -> str:
    """Returns the value, if it can be the id of a job.

    >>> job_id("id", "order-7")
    'order-7'
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {value!r}")
    return value


def ids(name: str, value: Optional[Sequence[str]]) -> Optional[list[str]]:
    """Returns the value as a list of ids.

    >>> ids("depends", ("a", "b"))
    ['a', 'b']
    """
    if isinstance(value, str):
        raise TypeError(f"{name} must be a list of ids, not {value!r}")
    return None if value is None else [str(id) for id in value]


def exists_rule(value: str) -> str:
    """Returns the value, if it is a valid rule for a job whose id exists already.

    >>> exists_rule("skip")
    'skip'
    """
    if value not in ("refuse", "skip"):
        raise ValueError(f"exists must be 'refuse' or 'skip', not {value!r}")
    return value
