"""Runs jobs that do nothing before the first real one: so all forks share what their code imports, compiles and
caches."""

from __future__ import annotations

from ..worker import outcome
from . import fast
from .run import Run, encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .run import Setup


def rehearse(setup: Setup) -> None:
    """Runs one job that returns, and one that raises. Opens no connection, writes nothing and calls no handler."""
    ending = fast.run(setup, _run_of(setup, nothing))
    if ending.outcome != "complete":
        raise RuntimeError(ending.fields["error"])
    try:
        setup.installed.perform(_run_of(setup, fails).job())
    except RuntimeError as error:
        outcome.describe(error)


def _run_of(setup: Setup, function: Callable[[], Any]) -> Run:
    job = setup.job_class.create(function, connection=setup.connection, serializer=setup.serializer, origin="rehearsal")
    return Run(setup, job.id, job.origin, "", "", encoded(job.to_dict()), None)


def nothing() -> None:
    """A job that returns."""


def fails() -> None:
    """A job that raises."""
    raise RuntimeError("a rehearsal")
