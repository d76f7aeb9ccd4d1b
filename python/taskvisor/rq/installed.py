"""The application's own RQ: the names of it that are used here, and the differences between its versions."""

from __future__ import annotations

import importlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FunctionType
    from typing import Any, Optional

_DEFAULT_JOB = "rq.job.Job"
_DEFAULT_QUEUE = "rq.Queue"
_DEFAULT_WORKER = "rq.Worker"


class Installed:
    """RQ as the application has installed it. Making this imports it."""

    def __init__(self) -> None:
        rq: Any = importlib.import_module("rq")
        #: Its version as text.
        self.version: str = rq.__version__
        #: The first number of the version.
        self.major = int(self.version.partition(".")[0])
        #: The directory of its code.
        self._place = os.path.dirname(os.path.abspath(rq.__file__)) + os.sep
        self._job: Any = importlib.import_module("rq.job")
        #: The class that a job returns to run again; RQ 1 has none.
        self.retry: Any = self._job.Retry
        #: The exception for a job whose time is over.
        self.timeout: Any = importlib.import_module("rq.timeouts").JobTimeoutException
        #: The text for a result that cannot be kept.
        self.unserializable: Any = getattr(importlib.import_module("rq.defaults"),
                                           "UNSERIALIZABLE_RETURN_VALUE_PAYLOAD", "Unserializable return value")
        #: The prefix of its keys.
        self.prefix: str = getattr(importlib.import_module("rq.defaults"), "RQ_KEY_PREFIX", "rq")

    def named(self, path: str) -> Any:
        """The object at a dotted path."""
        return importlib.import_module("rq.utils").import_attribute(path)

    def job_class(self, path: Optional[str]) -> Any:
        """The class of jobs."""
        return self.named(path or _DEFAULT_JOB)

    def queue_class(self, path: Optional[str]) -> Any:
        """The class of queues."""
        return self.named(path or _DEFAULT_QUEUE)

    def worker_class(self, path: Optional[str]) -> Any:
        """The class of workers."""
        return self.named(path or _DEFAULT_WORKER)

    def serializer(self, name: Optional[str]) -> Any:
        """The serializer for calls and results of jobs."""
        serializers = importlib.import_module("rq.serializers")
        known = {"json": serializers.JSONSerializer, "pickle": serializers.DefaultSerializer}
        return serializers.resolve_serializer(known.get(name, name) if name else None)

    def execution(self, job_id: str, execution_id: str, connection: Any, worker: str) -> Any:
        """One run of a job; None before RQ 2."""
        if self.major < 2:
            return None
        execution = importlib.import_module("rq.executions").Execution(execution_id, job_id, connection)
        execution.worker_name = worker
        return execution

    def is_plain(self, klass: Any) -> bool:
        """Whether all code of a class is RQ's own: not a subclass, and not patched."""
        bases = [base for base in klass.__mro__ if base is not object]
        functions = [_function(value) for base in bases for value in vars(base).values()]
        return all(base.__module__.split(".")[0] in ("rq", "typing", "abc") for base in bases) and all(
            function.__code__.co_filename.startswith(self._place) for function in functions if function is not None)

    def perform(self, job: Any) -> Any:
        """Calls the job's function, with the job as the current one. RQ 2 would ask Redis first."""
        if self.major >= 3:
            return job.perform()
        stack = self._job._job_stack
        stack.push(job)
        try:
            job._result = job._execute()
        finally:
            stack.pop()
        return job._result

    def call_back(self, job: Any, which: str, penalty: Any, *arguments: Any) -> None:
        """Calls the `success`, `failure` or `stopped` callback of a job, if it has one, within its time."""
        name = f"execute_{which}_callback"
        if self.major >= 3:
            getattr(importlib.import_module("rq.callbacks"), name)(job, penalty, *arguments)
        else:
            getattr(job, name)(penalty, *arguments)

    def now(self) -> Any:
        """The current time in RQ's form."""
        return importlib.import_module("rq.utils").now()

    def abandoned(self) -> BaseException:
        """The exception that RQ passes to callbacks of abandoned jobs."""
        error: BaseException = importlib.import_module("rq.exceptions").AbandonedJobError()
        return error

    def status(self, name: str) -> Any:
        """A status by its name in capitals."""
        return self._job.JobStatus[name]


def _function(value: Any) -> Optional[FunctionType]:
    """The function behind a member of a class, if it is one."""
    if isinstance(value, property):
        value = value.fget
    value = getattr(value, "__func__", value)
    return value if hasattr(value, "__code__") else None
