"""Lets RQ's own code run and end a job, over a connection of its own."""

from __future__ import annotations

import os
import socket

from ..worker import outcome
from ..worker.outcome import Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .run import Run, Setup


def run(setup: Setup, run: Run) -> Ending:
    """Runs the job to its end. Its state is then in Redis, where the supervisor looks."""
    installed = setup.installed
    try:
        job = run.job()
        place = queue(setup, run)
        performer = worker(setup, run, place)
        execution = installed.execution(run.id, run.execution, setup.connection, run.worker)
        if execution is not None:
            performer.execution = execution
    except Exception as error:
        return Ending("failed", error=outcome.describe(error))
    # As in a work horse, SIGTERM ends it at once, and only what RQ has written by then counts.
    performer.setup_work_horse_signals()
    try:
        performer.perform_job(*([job, place, execution] if installed.major >= 3 else [job, place]))
    except Exception as error:
        # RQ's own code or its connection has failed: it may have written nothing.
        return Ending("failed", error=outcome.describe(error))
    status = job.get_status(refresh=False)
    return Ending("complete", result={"mode": "native", "rq": installed.version,
                                      "status": str(getattr(status, "value", status))})


def queue(setup: Setup, run: Run) -> Any:
    """The queue of the job."""
    return setup.queue_class(run.queue, connection=setup.connection, job_class=setup.job_class,
                             serializer=setup.serializer)


def worker(setup: Setup, run: Run, place: Any) -> Any:
    """A worker in place of the one that took the job, as in its work horse."""
    worker = setup.worker_class(
        [place], name=run.worker, connection=setup.connection, default_result_ttl=setup.results_ttl,
        job_class=setup.job_class, queue_class=setup.queue_class, exception_handlers=setup.handlers or None,
        disable_default_exception_handler=not setup.keeps_failures, prepare_for_work=False,
        serializer=setup.serializer)
    worker.hostname, worker.pid = socket.gethostname(), os.getpid()
    worker._is_horse = True
    return worker
