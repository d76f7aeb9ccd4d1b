"""What a search has found."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ..client.job_info import JobInfo


class Found(NamedTuple):
    """The jobs that a search has found, and where it was cut."""

    #: The newest first, but for those whose ids begin with the word: they come before all others.
    jobs: list[JobInfo]
    #: The job after which the next search goes on; None = there are no more.
    next: Optional[str] = None
    #: How many jobs it looked at, if it was cut.
    looked: Optional[int] = None
