"""Handles SIGTERM and the soft time limit of a worker with one job at a time, by the state of the process.

It never raises while a frame is written or a reply is read.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ..client.own_limit import OwnLimit
from ..client.running_job import Job
from ..errors import Interrupted, SoftTimeLimitExceeded, TimeLimitExceeded
from . import watched
from .place import report_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

#: The C module behind `signal`, without the lookup of enum names at each call.
_signal: Any = sys.modules["_signal"]
#: A SIGTERM this many seconds before the time limit counts as that limit: the clock here starts a little later than the
#: supervisor's.
_TOLERANCE_SECONDS = 0.25
#: Within the handler of a SIGTERM the supervisor is waited for this long.
_PATIENCE_SECONDS = 0.25
#: Lowest number above the descriptors of the protocol.
_OUT_OF_THE_WAY = 10


class Termination:
    """Handles SIGTERM.

    While the process waits for a frame, SIGTERM exits 0 at once. While a job runs, it raises an exception in the job,
    once. At any other moment it is remembered until the next wait or job. The soft time limit of a job works likewise, by
    a timer (SIGALRM). A wait must poll `wake` too: a signal between the last check and the system call would be lost
    otherwise.
    """

    def __init__(self) -> None:
        self.requested: bool = False
        self.raised: Optional[Interrupted] = None
        self._waiting = False
        self._job: Optional[Job] = None
        #: Whether the timer of its soft limit has fired, and `is_over` was not asked yet.
        self._soft = False
        self._limit: Optional[OwnLimit] = None
        self._shields = 0
        self._interrupt: Optional[Callable[[], object]] = None
        self.wake: int = -1
        self._wake_write = -1

    def install(self) -> None:
        """Installs the handler in this process."""
        watched.of_wakeup.any = True
        # A template's child puts its channel at a number that is free at this moment: the pipe must not have it.
        ends = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.wake, self._wake_write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for end in ends)
        for end in ends:
            os.close(end)
        self.listen()

    def renew(self) -> None:
        """Makes a new pipe in a forked child, at the same descriptors, without losing a signal."""
        wake, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.dup2(wake, self.wake, False)
        os.dup2(wake_write, self._wake_write, False)
        os.close(wake)
        os.close(wake_write)

    def listen(self) -> None:
        """Installs the handler again, in case a job has replaced it."""
        # Without the enum names that `signal` looks up for the handler it finds.
        if _signal.getsignal(signal.SIGTERM) != self._on_signal:
            signal.signal(signal.SIGTERM, self._on_signal)
        # Where a job has closed the descriptor the look fails; where its number is another file's by now, the call does.
        if watched.of_wakeup.any or os.get_blocking(self._wake_write):
            signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
            watched.of_wakeup.forget()

    def drain(self) -> None:
        """Empties the pipe to which signals write."""
        try:
            os.read(self.wake, 4096)
        except OSError:
            pass

    def begin_wait(self) -> None:
        """From here on SIGTERM exits; if it came before, this exits."""
        self._waiting = True
        if self.requested:
            self._exit()

    def end_wait(self) -> None:
        """From here on SIGTERM is remembered."""
        self._waiting = False

    def begin_job(self, job: Job) -> None:
        """From here on SIGTERM raises in the job; if it came before, this raises."""
        self._job = job
        if isinstance(self.raised, SoftTimeLimitExceeded):
            self.raised = None
        if self.requested:
            self._deliver()
        elif job.soft_time_limit is not None:
            self._soft = False
            self._limit = OwnLimit(job, job.soft_time_limit, job.started)
            signal.signal(signal.SIGALRM, self._on_alarm)
            signal.setitimer(signal.ITIMER_REAL, max(self._limit.left(), 1e-6))

    def end_job(self) -> None:
        """From here on SIGTERM is remembered."""
        job, self._job = self._job, None
        self._interrupt = None
        if job is not None and job.soft_time_limit is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def interrupt_by(self, interrupt: Callable[[], object]) -> None:
        """Calls `interrupt` instead of raising: for a job in an event loop, where an exception would hit the loop."""
        self._interrupt = interrupt
        if self.raised is not None:
            interrupt()

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Raises only at the end of the block, so that no frame is torn. Python runs handlers in the main thread
        only."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        if not self._shields and self._job is not None:
            if self.requested:
                self._deliver()
            elif self._soft:
                self._tell_soft(self._job)

    def _on_alarm(self, _number: int, _frame: Optional[FrameType]) -> None:
        self._soft = True
        if self._job is not None and not self._shields:
            self._tell_soft(self._job)

    def _on_signal(self, _number: int, _frame: Optional[FrameType]) -> None:
        self.requested = True
        if self._waiting:
            self._exit()
        if self._job is not None and not self._shields:
            self._deliver()

    def _exit(self) -> None:
        # Only once: a second signal must not hit the code that runs at exit.
        self._waiting = False
        raise SystemExit(0)

    def _deliver(self) -> None:
        """Raises in the job. Called from the signal handler or at the end of a shield: the job's own frames are below
        it."""
        job = self._job
        if job is None or not (self.raised is None or isinstance(self.raised, SoftTimeLimitExceeded)):
            return
        job.must_end()
        if self._is_at_its_limit(job):
            # The process may have been stopped meanwhile.
            self._shields += 1
            job.ask_stopped(_PATIENCE_SECONDS)
            self._shields -= 1
        ran = job.ran()
        if job.time_limit is not None and self._is_at_its_limit(job):
            self.raised = TimeLimitExceeded(f"the time limit of {job.time_limit:g} s is over")
        else:
            self.raised = Interrupted(f"asked to end by SIGTERM after {ran:.3g} s")
        self._raise(self.raised)

    @staticmethod
    def _is_at_its_limit(job: Job) -> bool:
        return job.time_limit is not None and job.ran() + _TOLERANCE_SECONDS >= job.time_limit

    def _tell_soft(self, job: Job) -> None:
        self._soft = False
        limit = self._limit
        if self.raised is not None or job.soft_time_limit is None or limit is None:
            return
        if not limit.is_over():
            signal.setitimer(signal.ITIMER_REAL, limit.again())
            return
        self.raised = SoftTimeLimitExceeded(f"the soft time limit of {job.soft_time_limit:g} s is over")
        self._raise(self.raised)

    def _raise(self, error: Interrupted) -> None:
        if self._interrupt is not None:
            self._interrupt()
        else:
            # At once, as a job that does not end is killed and cannot report later. After a soft limit it may go on.
            if not isinstance(error, SoftTimeLimitExceeded):
                report_place(error, sys._getframe())
            raise error
