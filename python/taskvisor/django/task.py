"""A task with what a job of taskvisor has beyond those of Django."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    class _Task:
        """Django's class, which has no types."""
else:
    from django.tasks.base import Task as _Task


# Its parameters are those of Django's class; Python 3.9 and older have neither, and no such Django.
@dataclass(frozen=True, slots=True, kw_only=True)  # type: ignore[call-overload,unused-ignore]
class Task(_Task):
    """A task of Django: ``@task(retries=3, time_limit=60)``."""

    #: How often it is tried again after it has failed; None = as OPTIONS say, else never, as with Django's own backends.
    retries: Optional[int] = None
    #: The longest run of an attempt, in seconds.
    time_limit: Optional[float] = None
