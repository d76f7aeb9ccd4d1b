"""Puts back what a job changed of its process: the fields of `changeable`, signal handlers, variables, its place.

For workers that live on. stdin, stdout and stderr are the business of `outputs`, threads that of `left_threads`;
context variables end with the job's context.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from . import changeable
from .changeable import Field, no_alarm, stop_passing_timers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

#: The C module behind `signal`, without the lookup of enum names at each call.
_signal: Any = sys.modules["_signal"]
#: Not restored: the worker handles SIGTERM itself, and the others cannot be handled.
_OURS = {signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP}
#: The numbers of the others. Python 3.7 does not know which of the numbers are signals: it says None for the rest.
_SIGNALS = sorted(set(map(int, getattr(signal, "valid_signals", lambda: range(1, signal.NSIG))())) - _OURS)
#: Longer lists of names are cut.
_MOST = 10


class Changes:
    """What a job had changed."""

    __slots__ = ("kept", "names")

    def __init__(self) -> None:
        #: What was changed, in words.
        self.names: list[str] = []
        #: Those of them that could not be put back.
        self.kept: list[str] = []

    def text(self, job_id: str) -> str:
        """One line for the job's output.

        >>> changes = Changes()
        >>> changes.names = ["the umask", "the nice value"]
        >>> changes.text("7")
        'taskvisor.worker: job 7 left this changed, and the next one finds it as before: the umask, the nice value\\n'
        >>> changes.kept = ["the nice value"]
        >>> changes.text("7").endswith(". A new worker follows, as the nice value cannot be put back\\n")
        True
        """
        said = (f"taskvisor.worker: job {job_id} left this changed, and the next one finds it as before: "
                f"{_listed(self.names)}")
        kept = f". A new worker follows, as {_listed(self.kept)} cannot be put back" if self.kept else ""
        return f"{said}{kept}\n"


class Surroundings:
    """The state of the process after the application was loaded."""

    def __init__(self) -> None:
        self._fields: list[Field] = changeable.fields()
        self._reads = [field.read for field in self._fields]
        self.adopt()

    def adopt(self) -> None:
        """Takes the state as it is now for the application's own."""
        self._directory = os.getcwd()
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        # A handler that was not set by Python is None, and Python cannot restore it.
        handlers = {number: _signal.getsignal(number) for number in _SIGNALS}
        # Real-time signals are left out: checking them would take as long as everything else here.
        kept = {number: handler for number, handler in handlers.items()
                if handler is not None and number < signal.SIGRTMIN}
        self._numbers, self._handlers = list(kept), list(kept.values())
        stop_passing_timers()
        self._values = [read() for read in self._reads]
        self._environ = os.environ
        self._variables: dict[bytes, bytes] = dict(os.environb)
        # The dictionary behind it: to read each variable would take longer than everything else here.
        self._raw: Any = getattr(os.environb, "_data", None)

    def restore(self, has_own_directory: bool = False) -> Changes:
        """Puts back the whole state. A job that had a directory of its own has not left its place."""
        changes = Changes()
        self._restore_handlers(changes)
        values = [read() for read in self._reads]
        if values != self._values:
            for field, now, before in zip(self._fields, values, self._values):
                if now != before:
                    _put_back(field, now, before, changes)
        if os.environ is not self._environ or self._raw != self._variables:
            self._restore_variables(changes)
        if os.umask(self._umask) != self._umask:
            changes.names.append("the umask")
        if self._return() and not has_own_directory:
            changes.names.append("the working directory")
        return changes

    def _restore_handlers(self, changes: Changes) -> None:
        # Before the mask: a signal that it lets through again meets the application's own handler.
        if no_alarm():
            changes.names.append("an alarm (ITIMER_REAL)")
        getsignal = _signal.getsignal
        if list(map(getsignal, self._numbers)) == self._handlers:
            return
        for number, handler in zip(self._numbers, self._handlers):
            if getsignal(number) != handler:
                _signal.signal(number, handler)
                # Libraries for timeouts leave it at its default. Without an alarm nobody meets it.
                if number != signal.SIGALRM:
                    changes.names.append(f"the handler of {signal.Signals(number).name}")

    def _restore_variables(self, changes: Changes) -> None:
        os.environ = self._environ
        before, now = self._variables, dict(os.environb)
        changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
        for name in changed:
            if name in before:
                os.environb[name] = before[name]
            else:
                del os.environb[name]
        if b"TZ" in changed:
            time.tzset()
        if changed:
            changes.names.append(f"os.environ ({_listed([name.decode('utf-8', 'replace') for name in changed])})")

    def _return(self) -> bool:
        """Goes back to the directory. True if the process had left it."""
        try:
            if os.getcwd() == self._directory:
                return False
        except OSError:
            # The job has removed the directory in which it was.
            pass
        try:
            os.chdir(self._directory)
        except OSError:
            # The worker's own directory is gone: the next job finds nothing worse than the last one did.
            pass
        return True


def _put_back(field: Field, now: Any, before: Any, changes: Changes) -> None:
    name = field.named(now, before)
    changes.names.append(name)
    try:
        field.write(before)
    except Exception:
        changes.kept.append(name)


def _listed(names: list[str]) -> str:
    more = [f"{len(names) - _MOST} more"] if len(names) > _MOST else []
    return ", ".join(names[:_MOST] + more)


#: The surroundings of this process, if it is a worker that lives on. Only `of_process` and its maker use it.
_of_process: list[Surroundings] = []


def of_process() -> Optional[Surroundings]:
    """The surroundings of this process, if it is a worker that lives on."""
    return _of_process[0] if _of_process else None


def note() -> Surroundings:
    """Notes the state of this process as that which each job is to find."""
    _of_process[:] = [Surroundings()]
    return _of_process[0]
