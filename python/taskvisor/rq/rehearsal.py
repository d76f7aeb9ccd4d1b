"""Runs a job that does nothing before the first real one: what its code imports, compiles and keeps, all forks then share."""

from __future__ import annotations

from . import fast
from .run import Run, encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .run import Setup


def rehearse(setup: Setup) -> None:
    """Runs it as a job of RQ. No connection is opened and nothing is written."""
    job = setup.job_class.create(nothing, connection=setup.connection, serializer=setup.serializer, origin="rehearsal")
    ending = fast.run(setup, Run(setup, job.id, job.origin, "", "", encoded(job.to_dict()), None))
    if ending.outcome != "complete":
        raise RuntimeError(ending.fields["error"])


def nothing() -> None:
    """What is run."""
