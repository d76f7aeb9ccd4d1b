"""RQ's time limit of a job or a callback, an alarm that raises, for which time in which the process was stopped does not
count."""

from __future__ import annotations

import signal

from ..client import running_job
from ..client.own_limit import OwnLimit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


def patient(penalty: Any, alarms: Any) -> Any:
    """The class with which to limit time in place of `penalty`: that itself if it is none of RQ's `alarms`."""
    if not (isinstance(penalty, type) and issubclass(penalty, alarms)):
        return penalty

    class Patient(penalty):  # type: ignore[misc]
        """Asks the supervisor before it raises."""

        _own: Optional[OwnLimit] = None

        def setup_death_penalty(self) -> None:
            """Sets the alarm."""
            job = running_job.running()
            self._own = None if job is None else OwnLimit(job, self._timeout)
            super().setup_death_penalty()

        def handle_death_penalty(self, number: int, frame: Any) -> None:
            """The alarm goes off."""
            if self._own is None or self._own.is_over():
                super().handle_death_penalty(number, frame)
            else:
                signal.setitimer(signal.ITIMER_REAL, self._own.again())

    Patient.__name__, Patient.__qualname__ = penalty.__name__, penalty.__qualname__
    return Patient
