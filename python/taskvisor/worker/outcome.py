"""Makes the `done` frame of a job from its result or exception. It never sends a frame."""

from __future__ import annotations

import traceback

from ..client.advance import Advance
from ..client.running_job import Job
from ..errors import DataMismatch, Fail, Retry, Snooze
from ..protocol import frames, values
from .place import LONGEST_TRACE, is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

#: In characters. Longer messages are cut.
LONGEST_MESSAGE = 16 * 1024
#: The group of failures of jobs that block their event loop.
BLOCKED = "EventLoopBlocked"


class Ending:
    """Returned by functions of other systems, which decide themselves how their job ends: the fields of `done`."""

    __slots__ = ("fields", "outcome")

    def __init__(self, outcome: str, **fields: Any) -> None:
        self.outcome: str = outcome
        self.fields: dict[str, Any] = fields


def complete(job: Job, result: Any) -> bytes:
    """The end of a job that has returned. If its result cannot be sent, its record says so in place of it."""
    if isinstance(result, Ending):
        return _done(job, result.outcome, **result.fields)
    advance = result if isinstance(result, Advance) else None
    if advance is not None:
        result = advance.result
    try:
        text = "null" if result is None else frames.encode(values.to_json(result, "result"))
    except TypeError as error:
        return _complete(job, _not_kept(f"the result is {error}"), advance)
    except BaseException as error:  # An encoder is code of the application.
        return _complete(job, _not_kept(f"the result cannot be written as JSON: {_group(type(error))}: {_message(error)}"),
                         advance)
    line = _complete(job, text, advance)
    if len(line) > frames.LONGEST:
        return _complete(job, _not_kept(f"the result is too long: {len(text)} characters; a frame holds {frames.LONGEST} "
                                        "bytes. Return a path or a key instead"), advance)
    return line


def _complete(job: Job, result: str, advance: Optional[Advance]) -> bytes:
    return frames.line(f'{{"done":{{{_head(job)},"outcome":"complete","result":{result}{_next(advance)}}}}}')


def _not_kept(why: str) -> str:
    """What stands for a result that cannot be kept: the work is done, so the job has not failed."""
    return frames.encode({values.MARK: values.NOT_KEPT, "value": why[:LONGEST_MESSAGE]})


def _next(advance: Optional[Advance]) -> str:
    return "" if advance is None else f',"next":{frames.encode(advance.fields())}'


def ended_by(job: Job, error: BaseException) -> bytes:
    """The end of a job that has raised."""
    if isinstance(error, Retry):
        return _done(job, "retry", after=error.after, error=_reason(error))
    if isinstance(error, Snooze):
        return _done(job, "snooze", after=error.after, error=_reason(error))
    for_good = isinstance(error, (Fail, DataMismatch))
    return _done(job, "failed_for_good" if for_good else "failed", error=describe(error))


def canceled(job: Job, error: Optional[BaseException] = None) -> bytes:
    """The end of a job that was asked to end, and has."""
    return _done(job, "canceled", error=None if error is None else describe(error))


def with_traces(done: bytes, cpu: float, left: list[str]) -> bytes:
    r"""Adds the seconds of CPU time that the job used, and what it has left running in the worker.

    >>> with_traces(b'{"done":{"job":"7"}}\n', 0.25, ["thread beat"])
    b'{"done":{"job":"7","cpu":0.250000,"left":["thread beat"]}}\n'
    """
    more = f',"left":{frames.encode(left)}' if left else ""
    return done[:-3] + f',"cpu":{cpu:.6f}{more}}}}}\n'.encode("utf-8", "replace")


def given_back(job: Job, after: float, message: str, group: str = BLOCKED) -> bytes:
    """The end of a run that another job has cut short: not an attempt."""
    return _done(job, "snooze", after=after, error={"group": group, "message": message[:LONGEST_MESSAGE]})


def blocked(job: Job, message: str, trace: str) -> bytes:
    """The end of a job that kept the event loop of its worker from turning."""
    return _done(job, "failed", error={"group": BLOCKED, "message": message[:LONGEST_MESSAGE], "trace": trace})


def unknown_class(job: Job) -> bytes:
    """The end of a job whose class has no function here."""
    return _done(job, "unknown_class")


def failed_because(job: Job, group: str, message: str) -> bytes:
    """The job has failed for good, without an exception of its own: another run would end in the same way."""
    return _done(job, "failed_for_good", error={"group": group, "message": message})


def describe(error: BaseException) -> dict[str, str]:
    """An exception in the form for the supervisor.

    >>> described = describe(ValueError("no"))
    >>> described["group"], described["message"]
    ('ValueError', 'no')
    """
    described = {"group": _group(type(error)), "message": _message(error)[:LONGEST_MESSAGE]}
    if not isinstance(error, DataMismatch):
        described["trace"] = _trace(error)[-LONGEST_TRACE:]
    return described


def _done(job: Job, outcome: str, **fields: Any) -> bytes:
    rest = "".join(f',"{name}":{frames.encode(value)}' for name, value in fields.items() if value is not None)
    return frames.line(f'{{"done":{{{_head(job)},"outcome":"{outcome}"{rest}}}}}')


def _head(job: Job) -> str:
    return f'"job":{frames.encode(job.id)},"fence":{job.fence}'


def _reason(error: BaseException) -> Optional[dict[str, str]]:
    return describe(error) if str(error) or error.__cause__ is not None else None


def _group(kind: type) -> str:
    if kind is DataMismatch:
        return "TypeError"
    plain = kind.__module__ == "builtins" or kind.__module__.split(".")[0] == "taskvisor"
    return kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the job called sys.exit({'' if error.code is None else repr(error.code)})"
    try:
        return str(error)
    except BaseException as second:  # The text of an exception is code of the job too.
        return f"(its message raised {type(second).__name__})"


def _trace(error: BaseException) -> str:
    try:
        # The source lines of a frame that is removed are not read.
        shown = traceback.TracebackException.from_exception(error, lookup_lines=False)
        _strip(shown, set())
        return "".join(map(_short, shown.format()))
    except BaseException as second:
        return f"(its trace raised {type(second).__name__})"


def _short(line: str) -> str:
    """A line of a trace; a long message keeps its beginning, as that has the type of the exception."""
    return line if len(line) <= LONGEST_MESSAGE else line[:LONGEST_MESSAGE] + "…\n"


def _strip(shown: traceback.TracebackException, seen: set[int]) -> None:
    """Removes the frames of this package: they say nothing about the job."""
    if id(shown) in seen:
        return
    seen.add(id(shown))
    shown.stack[:] = [entry for entry in shown.stack if not is_ours(entry)]
    inner = [shown.__cause__, shown.__context__, *(getattr(shown, "exceptions", None) or ())]
    for other in inner:
        if other is not None:
            _strip(other, seen)
