"""Restores what a job changed of its process: working directory, umask, signal handlers, alarm.

For workers that live on. Threads are the business of `left_threads`; context variables end with the job's context.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The C module behind `signal`, without the lookup of enum names at each call.
_signal: Any = sys.modules["_signal"]
#: Not restored: the worker handles SIGTERM itself, and the others cannot be handled.
_OURS = {signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP}


class Surroundings:
    """The state of the process after the application was loaded."""

    def __init__(self) -> None:
        self._directory = os.getcwd()
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        # A handler that was not set by Python is None, and Python cannot restore it.
        handlers = {number: _signal.getsignal(number) for number in map(int, signal.valid_signals() - _OURS)}
        # Real-time signals are left out: checking them would take as long as everything else here.
        self._handlers = [(number, handler) for number, handler in handlers.items()
                          if handler is not None and number < signal.SIGRTMIN]

    def restore(self) -> None:
        """Restores the whole state."""
        _signal.alarm(0)
        getsignal = _signal.getsignal
        for number, handler in self._handlers:
            if getsignal(number) is not handler and getsignal(number) != handler:
                _signal.signal(number, handler)
        os.umask(self._umask)
        self._return()

    def _return(self) -> None:
        try:
            if os.getcwd() == self._directory:
                return
        except OSError:
            # The job has removed the directory in which it was.
            pass
        try:
            os.chdir(self._directory)
        except OSError:
            # The worker's own directory is gone: the next job finds nothing worse than the last one did.
            pass
