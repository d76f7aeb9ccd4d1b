"""The time limit of kale: an exception in the main thread, once. Time in which the process is stopped does not count."""

from __future__ import annotations

import signal
import time

from ..client.own_limit import OwnLimit
from ..client.running_job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


class Alarm:
    """Raises an exception in the block after some seconds.

    A limit of taskvisor's own that comes earlier keeps the timer, and gets it back afterwards.

    >>> job = Job({"id": "7", "fence": 1, "class": "c"})
    >>> try:
    ...     with Alarm(job, 0.01, TimeoutError):
    ...         time.sleep(5)
    ... except TimeoutError:
    ...     print("over")
    over
    """

    def __init__(self, job: Job, seconds: Optional[float], kind: type[BaseException]) -> None:
        self._job = job
        self._seconds = seconds or 0
        self._kind = kind
        self._taken = False
        self._over = False
        self._handler: Any = None
        self._other = 0.0
        self._started = 0.0

    def __enter__(self) -> None:
        self._other = signal.getitimer(signal.ITIMER_REAL)[0]
        if self._seconds <= 0 or 0 < self._other <= self._seconds:
            return
        self._started = time.monotonic()
        self._limit = OwnLimit(self._job, self._seconds, self._started)
        self._handler = signal.signal(signal.SIGALRM, self._raise)
        self._taken = True
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_raised: object) -> None:
        # From here on the alarm must not raise any more.
        self._over = True
        if not self._taken:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._handler)
        if self._other:
            left = self._started + self._other - time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-6))

    def _raise(self, _number: int, _frame: object) -> None:
        if self._over:
            return
        if self._limit.is_over():
            raise self._kind(f"the task ran longer than its time_limit of {self._seconds:g} s")
        signal.setitimer(signal.ITIMER_REAL, self._limit.again())
