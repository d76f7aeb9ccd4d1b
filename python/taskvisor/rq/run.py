"""What a worker for RQ has loaded, and one run of a job."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Optional

    from .installed import Installed

#: Versions of RQ for which the supervisor can write the end of a job as RQ does.
_KNOWN = range(2, 4)
#: Seconds, as in RQ.
_RESULTS_TTL = 500


def encoded(fields: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Fields of a hash as Redis keeps them."""
    def of(value: Any) -> bytes:
        return value if isinstance(value, bytes) else (value if isinstance(value, str) else str(value)).encode()
    return {name.encode(): of(value) for name, value in fields.items()}


class Setup:
    """The objects that the options of the worker name."""

    def __init__(self, installed: Installed, connection: Any) -> None:
        self.installed = installed
        #: Not opened until it is used.
        self.connection = connection
        self.serializer: Any = None
        #: None for RQ's default, which jobs then use without a check of its type.
        self.serializer_of_jobs: Any = None
        self.job_class: Any = None
        self.queue_class: Any = None
        self.worker_class: Any = None
        self.handlers: list[Any] = []
        #: Whether failures are kept in RQ's registry.
        self.keeps_failures = True
        self.results_ttl = _RESULTS_TTL
        #: Whether RQ's own code ends every job.
        self.is_native = False
        self._perform: Any = None

    def choose(self) -> None:
        """Decides the mode. The supervisor can end jobs in RQ's place if all code involved is RQ's own, in a known
        version."""
        # A patched queue does not count: the patch is for code that puts jobs.
        own = self.queue_class is self.installed.queue_class(None) and all(
            map(self.installed.is_plain, (self.worker_class, self.job_class)))
        self.is_native |= not (own and self.keeps_failures and self.installed.major in _KNOWN)
        self._perform = self.worker_class.perform_job

    def is_fast(self, run: Run) -> bool:
        """Whether the supervisor ends the job. Not if the job's module has patched the worker, for example to measure
        it, or if the job has webhooks, which RQ sends."""
        return not (self.is_native or run.fields.get(b"webhooks")) and self.worker_class.perform_job is self._perform


class Run:
    """A job that a worker was given."""

    def __init__(self, setup: Setup, id: str, queue: str, execution: str, worker: str, fields: dict[bytes, bytes],
                 callback: Optional[dict[str, Any]]) -> None:
        self.id = id
        self.queue = queue
        self.execution = execution
        self.worker = worker
        #: The hash of the job at the time when it was taken.
        self.fields = fields
        #: The callback to run in place of the job's function.
        self.callback = callback
        self._setup = setup

    def job(self) -> Any:
        """The job, as RQ makes it from its hash. Raises RQ's exceptions."""
        setup = self._setup
        job = setup.job_class(self.id, connection=setup.connection, serializer=setup.serializer_of_jobs)
        job.restore(self.fields)
        return job
