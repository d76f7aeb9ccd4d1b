"""`Advance`, which a job returns to go on in another queue. It only holds and checks its values."""

from __future__ import annotations

from ..checks import ids, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Optional


class Advance:
    """Returned by a job that is done here and goes on in another queue: with the same id and data, as if put anew.

    It is returned, not raised, so that a ``with transaction():`` around it commits. The history of the job keeps the
    result.

    >>> @job("doc.Film")
    ... def film(path):
    ...     if current_job().queue == "download":
    ...         return Advance("encode", {"bytes": 5}, delay=10)
    """

    __slots__ = ("delay", "depends", "queue", "result")

    def __init__(self, queue: str, result: Any = None, *, delay: Optional[float] = None,
                 depends: Optional[Sequence[str]] = None) -> None:
        if not isinstance(queue, str) or not queue:
            raise ValueError(f"queue must be the name of a queue, not {queue!r}")
        #: The queue in which the job goes on.
        self.queue: str = queue
        #: The result of this stage: any JSON value. The history of the job keeps it.
        self.result: Any = result
        #: The shortest time from now until it goes on, in seconds.
        self.delay: Optional[float] = None if delay is None else seconds("delay", delay)
        #: Ids of jobs that have to be complete before it goes on.
        self.depends: Optional[list[str]] = ids("depends", depends)

    def __repr__(self) -> str:
        return f"Advance({self.queue!r}, {self.result!r}, delay={self.delay!r}, depends={self.depends!r})"

    def fields(self) -> dict[str, Any]:
        """The fields of `next` in a `done` frame.

        >>> Advance("encode", delay=10).fields()
        {'queue': 'encode', 'delay': 10}
        """
        fields = {"queue": self.queue, "delay": self.delay, "depends": self.depends}
        return {name: value for name, value in fields.items() if value is not None}


# Users know it as taskvisor.Advance.
Advance.__module__ = "taskvisor"
