"""Runs callbacks of jobs that ended without their worker, as RQ's own parent process or its maintenance would."""

from __future__ import annotations

import base64
import resource
import zlib

from ..errors import Interrupted
from ..worker import outcome
from ..worker.outcome import Ending
from . import fast, native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .run import Run, Setup


def call(setup: Setup, run: Run) -> Ending:
    """Runs the callback. The supervisor records how the job has ended, whatever the callback does."""
    assert run.callback is not None
    said, job = run.callback, run.job()
    try:
        try:
            _KINDS[said["kind"]](setup, run, job)
        finally:
            if "exception" in said:
                job.ended_at = setup.installed.named("rq.utils.utcparse")(said["ended_at"])
                job.send_webhooks("failed", exc_string=zlib.decompress(base64.b64decode(said["exception"])).decode())
    except Interrupted:
        raise
    except BaseException as error:
        return Ending("failed", error=outcome.describe(error))
    return Ending("complete", result={"mode": "callback"})


def _stopped(setup: Setup, _run: Run, job: Any) -> None:
    setup.installed.call_back(job, "stopped", setup.worker_class.death_penalty_class)


def _abandoned(setup: Setup, _run: Run, job: Any) -> None:
    error = setup.installed.abandoned()
    try:
        setup.installed.call_back(job, "failure", setup.worker_class.death_penalty_class, type(error), error, None)
    finally:
        fast.handle(setup, job, error)


def _killed(setup: Setup, run: Run, job: Any) -> None:
    """RQ's own method only writes to its log."""
    if setup.installed.is_plain(setup.worker_class):
        return
    assert run.callback is not None
    said = run.callback
    used = resource.struct_rusage((said.get("user", 0.0), said.get("system", 0.0), said.get("max_rss", 0)) + (0,) * 13)
    native.worker(setup, run, native.queue(setup, run)).handle_work_horse_killed(job, 0, said["status"], used)


def _failed(_setup: Setup, _run: Run, _job: Any) -> None:
    """The job's worker has run its callbacks; the webhooks are sent when its end is recorded."""


_KINDS = {"failed": _failed, "stopped": _stopped, "abandoned": _abandoned, "killed": _killed}
