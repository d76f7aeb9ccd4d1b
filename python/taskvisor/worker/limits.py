"""The limits of the process. To read all sixteen costs as much as all else that is looked at after a job."""

from __future__ import annotations

import resource
import time

from . import watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    Limits = list[tuple[int, int]]

#: All of Linux. The module has no name for LOCKS, which has the number 10.
_NAMES = ("CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS", "LOCKS", "SIGPENDING",
          "MSGQUEUE", "NICE", "RTPRIO", "RTTIME")
_NUMBERS = [getattr(resource, f"RLIMIT_{name}", 10) for name in _NAMES]
#: Calls of Python are seen. Native code and other processes are not, and no process is started while jobs run this long.
_UNSEEN_SECONDS = 0.0005


class _Known:
    """The limits as they were read last, and how long jobs have run since then."""

    limits: Optional[Limits] = None
    unseen = 0.0
    #: When the latest job began.
    began = 0.0


def begin_job() -> None:
    """Time before this is nobody's: a worker that waits changes nothing."""
    _Known.began = time.monotonic()


def read() -> Limits:
    """The limits of the process: those of the last look, or of a new one if a job may have changed them since."""
    known = _Known.limits
    _Known.unseen += time.monotonic() - _Known.began
    if known is not None and not watched.of_limits.any and _Known.unseen < _UNSEEN_SECONDS:
        return known
    watched.of_limits.forget()
    looked = _look()
    if looked != known:
        _Known.limits = looked
    _Known.unseen = 0.0
    return _Known.limits or looked


def put_back(before: Limits) -> None:
    """Sets those that differ."""
    for number, now, wanted in zip(_NUMBERS, _look(), before):
        if now != wanted:
            resource.setrlimit(number, wanted)


def differing(now: Limits, before: Limits) -> str:
    """The names of those that differ."""
    return ", ".join(name for name, left, right in zip(_NAMES, now, before) if left != right)


def _look() -> Limits:
    return list(map(resource.getrlimit, _NUMBERS))
