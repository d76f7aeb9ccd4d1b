"""What a worker for RQ has loaded, and one run of a job."""

from __future__ import annotations

import base64
import binascii

from .connection import connection
from .penalty import patient

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any, Optional

    from .installed import Installed

#: Versions of RQ for which the supervisor can write the end of a job as RQ does.
_KNOWN = range(2, 4)


def encoded(fields: Mapping[str, Any]) -> dict[str, str]:
    """Fields of a hash as Redis keeps them, in base64."""
    def of(value: Any) -> bytes:
        return value if isinstance(value, bytes) else (value if isinstance(value, str) else str(value)).encode()
    return {name: base64.b64encode(of(value)).decode() for name, value in fields.items()}


class Setup:
    """The objects that the options of the worker name."""

    def __init__(self, installed: Installed, options: argparse.Namespace) -> None:
        self.installed = installed
        #: Not opened until it is used.
        self.connection: Any = connection(options.url, options.connection_class)
        self.serializer: Any = installed.serializer(options.serializer)
        #: None for RQ's default, which jobs then use without a check of its type.
        self.serializer_of_jobs: Optional[Any] = self.serializer if options.serializer else None
        self.job_class: Any = installed.named(options.job_class)
        self.queue_class: Any = installed.named(options.queue_class)
        self.worker_class: Any = installed.named(options.worker_class)
        self.handlers: list[Any] = [installed.named(handler) for handler in options.handlers]
        #: Whether failures are kept in RQ's registry.
        self.keeps_failures: bool = not options.disable_default_exception_handler
        self.results_ttl: int = options.results_ttl
        # A patched queue does not count: the patch is for code that puts jobs.
        is_own = self.queue_class is installed.named("rq.Queue") and all(
            map(installed.is_plain, (self.worker_class, self.job_class)))
        #: Whether RQ's own code ends every job. The supervisor can do so in its place if all code involved is RQ's own, in
        #: a known version.
        self.is_native: bool = (options.native or bool(options.connection_class) or not self.keeps_failures
                                or not is_own or installed.major not in _KNOWN)
        self._perform = self.worker_class.perform_job
        #: Limits the time of jobs and callbacks.
        self.penalty: Any = patient(self.worker_class.death_penalty_class, installed.alarms)

    def is_fast(self, run: Run) -> bool:
        """Whether the supervisor ends the job. Not if the job's module has patched the worker, for example to measure
        it, or if the job has webhooks, which RQ sends."""
        return not (self.is_native or run.fields.get("webhooks") or self.changed())

    def changed(self) -> Optional[str]:
        """What an import has changed that all jobs share; None if nothing."""
        return None if self.worker_class.perform_job is self._perform else "it changes how RQ performs jobs"

    def call_back(self, job: Any, which: str, *arguments: Any) -> None:
        """Calls the `success`, `failure` or `stopped` callback of a job, if it has one, within its time."""
        name, penalty = f"execute_{which}_callback", self.penalty
        if self.installed.major >= 3:
            self.installed.named(f"rq.callbacks.{name}")(job, penalty, *arguments)
        else:
            getattr(job, name)(penalty, *arguments)


class Run:
    """A job that a worker was given. Its data is an object of the supervisor's."""

    id: Any
    queue: Any
    execution: Any
    worker: Any

    def __init__(self, setup: Setup, data: Any) -> None:
        self._setup = setup
        self._job: Any = None
        try:
            self.id, self.queue, self.execution, self.worker = (
                data[name] for name in ("id", "queue", "execution", "worker"))
            #: The hash of the job at the time when it was taken, in base64.
            self.fields: dict[str, str] = data["fields"]
            self._hash = {name.encode(): base64.b64decode(value, validate=True) for name, value in self.fields.items()}
            #: The callback to run in place of the job's function.
            self.callback: Optional[dict[str, Any]] = data.get("callback")
        except (KeyError, TypeError, AttributeError, binascii.Error) as error:
            raise TypeError(f"this is no job of RQ: {type(error).__name__}: {error}. Workers of taskvisor.rq take jobs of "
                            "the broker rq+redis://… only") from None
        prefix, installed = data.get("prefix", "rq"), setup.installed
        if prefix != installed.prefix:
            raise ValueError(f"the keys of this job begin with {prefix!r}, and RQ {installed.version} in this worker uses "
                             f"{installed.prefix!r}: give both the same RQ_KEY_PREFIX")

    def job(self) -> Any:
        """The job, as RQ makes it from its hash: the same one each time. Raises RQ's exceptions."""
        if self._job is None:
            setup = self._setup
            job = setup.job_class(self.id, connection=setup.connection, serializer=setup.serializer_of_jobs)
            job.restore(self._hash)
            self._job = job
        return self._job
