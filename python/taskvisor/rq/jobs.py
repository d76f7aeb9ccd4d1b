"""The application of a worker for RQ: makes the job object for a function from the fields that the supervisor sends."""

from __future__ import annotations

import base64
import binascii
import os

from ..client.running_job import Job
from ..worker import outcome
from ..worker.outcome import Ending
from . import callbacks, fast, native
from .connection import connection
from .rehearsal import rehearse
from .run import Run, Setup

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any, Callable, Optional

    from .installed import Installed


class Jobs:
    """Takes any class: the job's data names its function."""

    def __init__(self) -> None:
        self._setup: Optional[Setup] = None

    def start_up(self, installed: Installed, options: argparse.Namespace) -> None:
        """Loads the objects that the options name."""
        setup = Setup(installed, connection(options.url, options.connection_class))
        setup.serializer = installed.serializer(options.serializer)
        setup.serializer_of_jobs = setup.serializer if options.serializer else None
        setup.job_class = installed.job_class(options.job_class)
        setup.queue_class = installed.queue_class(options.queue_class)
        setup.worker_class = installed.worker_class(options.worker_class)
        setup.handlers = [installed.named(handler) for handler in options.handlers or ()]
        setup.keeps_failures = not options.disable_default_exception_handler
        if options.results_ttl is not None:
            setup.results_ttl = options.results_ttl
        setup.is_native = options.native or bool(options.connection_class)
        setup.choose()
        if not setup.is_native:
            rehearse(setup)
        self._setup = setup

    def hello_classes(self) -> None:
        """None: it takes any class."""

    def has_coroutines(self) -> bool:
        """False: RQ gives each coroutine an event loop of its own."""
        return False

    def find(self, job: Job) -> Call:
        """The call; if something is wrong with it, running it says so."""
        assert self._setup is not None
        return Call(job, self._setup)


class Call:
    """A job of RQ."""

    is_async = False

    def __init__(self, job: Job, setup: Setup) -> None:
        self._job = job
        self._setup = setup

    @property
    def function(self) -> Callable[[], Any]:
        """Runs the job and returns how it ends."""
        return self._run

    def call_for(self, _data: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """No arguments: the job has them."""
        return (), {}

    def _run(self) -> Ending:
        setup = self._setup
        try:
            run = _run_of(self._job, setup)
        except Exception as error:
            return Ending("failed", error=outcome.describe(error))
        os.environ.update(RQ_WORKER_ID=run.worker, RQ_JOB_ID=run.id, RQ_EXECUTION_ID=run.execution)
        if run.callback is not None:
            return callbacks.call(setup, run)
        return fast.run(setup, run) if setup.is_fast(run) else native.run(setup, run)


def _run_of(job: Job, setup: Setup) -> Run:
    data = job.data
    try:
        fields = {name.encode(): base64.b64decode(value, validate=True) for name, value in data["fields"].items()}
        id, queue, execution, worker = data["id"], data["queue"], data["execution"], data["worker"]
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise TypeError(f"this is no job of RQ: {type(error).__name__}: {error}. Workers of taskvisor.rq take jobs of the "
                        "broker rq+redis://… only") from None
    prefix = data.get("prefix", "rq")
    if prefix != setup.installed.prefix:
        raise ValueError(f"the keys of this job begin with {prefix!r}, and RQ {setup.installed.version} in this worker uses "
                         f"{setup.installed.prefix!r}: give both the same RQ_KEY_PREFIX")
    return Run(setup, id, queue, execution, worker, fields, data.get("callback"))
