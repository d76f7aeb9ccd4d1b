"""Lets RQ's own code run and end a job, over a connection of its own."""

from __future__ import annotations

import os
import signal
import socket

from ..worker import outcome
from ..worker.outcome import Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .run import Run, Setup


def run(setup: Setup, run: Run) -> Ending:
    """Runs the job to its end. Its state is then in Redis, where the supervisor looks."""
    installed = setup.installed
    try:
        job = run.job()
        performer = worker(setup, run)
        arguments = [job, performer.queues[0]]
        if installed.major >= 2:
            execution = installed.named("rq.executions.Execution")(run.execution, run.id, setup.connection)
            execution.worker_name = run.worker
            performer.execution = execution
            arguments += [execution] if installed.major >= 3 else []
        else:
            job.heartbeat = _beat_of(job, installed.named("rq.utils.utcformat"))
    except Exception as error:
        return Ending("failed", error=outcome.describe(error))
    # As in a work horse, SIGTERM ends it at once, and only what RQ has written by then counts.
    interrupt = signal.getsignal(signal.SIGINT)
    performer.setup_work_horse_signals()
    try:
        performer.perform_job(*arguments)
    except Exception as error:
        # RQ's own code or its connection has failed: it may have written nothing.
        return Ending("failed", error=outcome.describe(error))
    finally:
        signal.signal(signal.SIGINT, interrupt)
    status = job.get_status(refresh=False)
    return Ending("complete", result={"mode": "native", "rq": installed.version,
                                      "status": str(getattr(status, "value", status))})


def _beat_of(job: Any, text: Callable[[Any], str]) -> Callable[..., None]:
    """The heartbeat of a job of RQ 1 without its entry among the running jobs: the supervisor has made one for this
    execution and keeps its time, and a second one would count the job twice."""
    def beat(timestamp: Any, ttl: int, pipeline: Any = None, xx: bool = False) -> None:
        job.last_heartbeat = timestamp
        connection = job.connection if pipeline is None else pipeline
        connection.hset(job.key, "last_heartbeat", text(timestamp))
    return beat


def worker(setup: Setup, run: Run) -> Any:
    """A worker in place of the one that took the job, as in its work horse, with the queue of the job."""
    common = {"connection": setup.connection, "job_class": setup.job_class, "serializer": setup.serializer}
    worker = setup.worker_class(
        [setup.queue_class(run.queue, **common)], name=run.worker, default_result_ttl=setup.results_ttl,
        queue_class=setup.queue_class, exception_handlers=setup.handlers or None,
        disable_default_exception_handler=not setup.keeps_failures, prepare_for_work=False, **common)
    worker.hostname, worker.pid = socket.gethostname(), os.getpid()
    worker._is_horse = True
    worker.death_penalty_class = setup.penalty
    return worker
