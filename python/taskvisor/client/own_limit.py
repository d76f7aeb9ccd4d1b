"""A limit of time that the worker itself keeps, such as a soft time limit. Time in which the process was stopped counts
towards none, and only the supervisor knows it: a timer that fires is believed when the supervisor has said so."""

from __future__ import annotations

import time

from .running_job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

#: Seconds for one answer of the supervisor, for all attempts, and between two.
_PATIENCE = 0.25
_ALL = 1.0
_AGAIN = 0.05


class OwnLimit:
    """A limit of `seconds` for a job, which count from now, or from `since` on the clock of `time.monotonic`."""

    def __init__(self, job: Job, seconds: float, since: Optional[float] = None) -> None:
        self._job = job
        self._end = (time.monotonic() if since is None else since) + seconds - job.stopped
        self._until: Optional[float] = None

    def left(self) -> float:
        """Seconds until the end, as far as is known: for a timer."""
        return self._end + self._job.stopped - time.monotonic()

    def is_over(self) -> bool:
        """Whether the limit is reached, for a timer that has fired. If not, set the timer to `again()` seconds."""
        if self._job.ask_stopped(_PATIENCE):
            self._until = None
            return self.left() <= 0
        now = time.monotonic()
        if self._until is None:
            self._until = now + _ALL
        return now >= self._until

    def again(self) -> float:
        """Seconds after which the timer is to fire again."""
        return max(self.left(), _AGAIN)
