"""What a job can raise, and what it can be hit by."""

from __future__ import annotations

import math


class Retry(Exception):
    """Ends this attempt; the job is tried again ``after`` seconds. The attempt is spent.

    >>> raise Retry(after=30, reason="the server is busy")
    Traceback (most recent call last):
    ...
    taskvisor.Retry: the server is busy
    """

    def __init__(self, after: float, reason: str = "") -> None:
        super().__init__(reason)
        self.after = seconds("after", after)


class Snooze(Exception):
    """Ends this attempt; the job comes back ``after`` seconds. The attempt is not spent.

    >>> raise Snooze(after=60)
    Traceback (most recent call last):
    ...
    taskvisor.Snooze
    """

    def __init__(self, after: float, reason: str = "") -> None:
        super().__init__(reason)
        self.after = seconds("after", after)


class Fail(Exception):
    """Ends the job for good: it is not tried again.

    >>> raise Fail("no such user")
    Traceback (most recent call last):
    ...
    taskvisor.Fail: no such user
    """


class Interrupted(BaseException):
    """Raised inside a running job when it has to end: it was canceled, or the worker stops.

    It is no ``Exception``, so that ``except Exception`` in a job does not swallow it. Clean up in ``finally``:

    >>> try:
    ...     raise Interrupted("asked to end")
    ... except Exception:
    ...     print("never seen")
    ... finally:
    ...     print("cleaned up")
    Traceback (most recent call last):
    ...
    taskvisor.Interrupted: asked to end
    """


class TimeLimit(Interrupted):
    """Raised inside a running job when its time is over. An `Interrupted`, so ``except Interrupted`` sees both.

    >>> issubclass(TimeLimit, Interrupted), issubclass(TimeLimit, Exception)
    (True, False)
    """


class SoftTimeLimit(Interrupted):
    """Raised inside a running job when its time is nearly over. One that goes on meets `TimeLimit` later.

    >>> issubclass(SoftTimeLimit, Interrupted), issubclass(SoftTimeLimit, TimeLimit)
    (True, False)
    """


class PutError(Exception):
    """A job could not be queued. The message says what was tried and what to do.

    >>> raise PutError("failed to put 1 job: the queue is closed")
    Traceback (most recent call last):
    ...
    taskvisor.PutError: failed to put 1 job: the queue is closed
    """


#: The supervisor's own bounds, refused here where the mistake was made.
_LONGEST_SECONDS = 36_525 * 24 * 3600
_LONGEST_NAME = 256
_LARGEST = 2**63 - 1


class DataMismatch(TypeError):
    """The data of a job does not fit the signature of its function."""


def seconds(name: str, value: float) -> float:
    """The value, if it is a number of seconds that can be waited.

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
    """The value, if it is a number of seconds that a job can run.

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
    """The value, if it can be the name of a queue or a class.

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
    # What is_control means in Rust: the categories Cc and, which no UTF-8 holds, Cs.
    if any(letter < " " or "\x7f" <= letter <= "\x9f" or "\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{what} must not hold newlines or other control characters: {value!r}")
    return value


_UNITS = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
          "TiB": 2**40}


def size(name: str, value: object) -> int:
    """The value as a number of bytes.

    >>> size("memory_limit", "512MB"), size("memory_limit", 4096)
    (512000000, 4096)
    """
    digits = str(value).rstrip("kKMGTiB")
    unit = str(value)[len(digits):]
    if isinstance(value, (int, str)) and digits.isdecimal() and unit in _UNITS and int(digits) > 0:
        if int(digits) * _UNITS[unit] > _LARGEST:
            raise ValueError(f"{name} must be less than 2**63 bytes, not {value!r}")
        return int(digits) * _UNITS[unit]
    raise ValueError(f"{name} must be a size from 1 on, like '512MB', '1GiB' or 100000, not {value!r}")


# A user meets them as taskvisor.Retry, in tracebacks too.
for _public in (Retry, Snooze, Fail, Interrupted, TimeLimit, SoftTimeLimit, PutError):
    _public.__module__ = "taskvisor"
