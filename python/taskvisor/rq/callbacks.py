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
    said = run.callback or {}
    try:
        job = run.job()
        try:
            _call(setup, run, job, said)
        finally:
            if "exception" in said:
                job.ended_at = setup.installed.named("rq.utils.utcparse")(said["ended_at"])
                job.send_webhooks("failed", exc_string=zlib.decompress(base64.b64decode(said["exception"])).decode())
    except Interrupted:
        raise
    except BaseException as error:
        return Ending("failed", error=outcome.describe(error))
    return Ending("complete", result={"mode": "callback"})


def _call(setup: Setup, run: Run, job: Any, said: dict[str, Any]) -> None:
    kind = said["kind"]
    if kind == "stopped":
        setup.call_back(job, "stopped")
    elif kind == "abandoned":
        error = setup.installed.named("rq.exceptions.AbandonedJobError")()
        try:
            setup.call_back(job, "failure", type(error), error, None)
        finally:
            fast.handle(setup, job, error)
    # RQ's own method only writes to its log.
    elif kind == "killed" and not setup.installed.is_plain(setup.worker_class):
        used = (said.get("user", 0.0), said.get("system", 0.0), said.get("max_rss", 0)) + (0,) * 13
        native.worker(setup, run).handle_work_horse_killed(job, 0, said["status"], resource.struct_rusage(used))
