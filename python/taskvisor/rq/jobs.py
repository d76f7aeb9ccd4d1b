"""The application of a worker for RQ: makes the job object for a function from the fields that the supervisor sends."""

from __future__ import annotations

import os
import sys

from ..client.running_job import Job
from ..worker import outcome, surroundings
from ..worker.application import Prepared
from ..worker.outcome import Ending
from ..worker.process import is_template
from . import callbacks, fast, native
from .run import Run, Setup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from ..worker.preload import Preload


class Jobs:
    """Takes any class: the job's data names its function."""

    def __init__(self) -> None:
        self._setup: Optional[Setup] = None
        #: For people, sent after hello.
        self.warnings: list[str] = []
        #: What a template imports by itself, if it does.
        self.preload: Optional[Preload] = None

    def start_up(self, setup: Setup, preloads: bool) -> None:
        """Sets the objects that the options name. A template that preloads imports modules by itself."""
        if not setup.is_native:
            fast.rehearse(setup)
        self._setup = setup
        if preloads and is_template():
            from ..worker.preload import Preload

            self.preload = Preload(setup.changed)
        names = setup.installed.never_called(setup.worker_class)
        if names:
            kind = setup.worker_class
            self.warnings.append(f"{kind.__module__}.{kind.__qualname__} has what is never called here, as the "
                                 f"supervisor takes, starts and watches the jobs: {', '.join(names)}")

    def hello_classes(self) -> None:
        """None: it takes any class."""

    def has_coroutines(self) -> bool:
        """False: RQ gives each coroutine an event loop of its own."""
        return False

    def find(self, job: Job) -> Prepared:
        """The call; if something is wrong with it, running it says so."""
        return Prepared(lambda: self._run(job))

    def _run(self, job: Job) -> Ending:
        setup = self._setup
        assert setup is not None
        try:
            run = Run(setup, job.data)
        except Exception as error:
            return Ending("failed", error=outcome.describe(error))
        _load_function(run)
        variables = {"RQ_WORKER_ID": run.worker, "RQ_JOB_ID": run.id, "RQ_EXECUTION_ID": run.execution}
        os.environ.update(variables)
        try:
            if run.callback is not None:
                return callbacks.call(setup, run)
            if self.preload is None:
                return _end(setup, run)
            if self.preload.is_outdated():
                # The template has old code: the job waits for a fork of the next one. It has not begun.
                return Ending("snooze", after=0)
            loaded = len(sys.modules)
            ending = _end(setup, run)
            if len(sys.modules) != loaded and _has_finished(ending):
                self.preload.name(run.job().func_name, loaded)
            return ending
        finally:
            for name in variables:
                os.environ.pop(name, None)


def _end(setup: Setup, run: Run) -> Ending:
    return fast.run(setup, run) if setup.is_fast(run) else native.run(setup, run)


def _has_finished(ending: Ending) -> bool:
    """Whether the function of the job has returned."""
    return ending.outcome == "complete" and ending.fields["result"].get("status", "finished") == "finished"


def _load_function(run: Run) -> None:
    """Loads the module of the job's function, where later jobs run in this process too: what it changes of the process
    when it is loaded belongs to the application, not to the job that needs it first."""
    found = surroundings.of_process()
    if found is None or run.callback is not None:
        return
    loaded = len(sys.modules)
    try:
        run.job().func
    except (Exception, SystemExit):
        # Running the job says so.
        pass
    if len(sys.modules) != loaded:
        found.adopt()
