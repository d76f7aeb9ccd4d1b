"""The application's own RQ: the names of it that are used here, and the differences between its versions."""

from __future__ import annotations

import importlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FunctionType
    from typing import Any, Optional


#: Methods of RQ's workers for what the supervisor does in their place: it takes the jobs, and starts and watches them.
_NEVER_CALLED = ("work", "bootstrap", "register_birth", "register_death", "dequeue_job_and_maintain_ttl", "execute_job",
                 "fork_work_horse", "monitor_work_horse", "wait_for_horse", "kill_horse", "main_work_horse",
                 "maintain_heartbeats", "run_maintenance_tasks", "clean_registries", "reorder_queues", "request_stop",
                 "request_force_stop", "handle_payload", "check_for_suspension", "_start_scheduler", "stop_scheduler",
                 "teardown")


class Installed:
    """RQ as the application has installed it. Making this imports it."""

    def __init__(self) -> None:
        rq: Any = importlib.import_module("rq")
        utils, defaults = importlib.import_module("rq.utils"), importlib.import_module("rq.defaults")
        #: Its version as text.
        self.version: str = rq.__version__
        #: The first number of the version.
        self.major: int = int(self.version.partition(".")[0])
        #: The directory of its code.
        self._place = os.path.dirname(os.path.abspath(rq.__file__)) + os.sep
        self._job: Any = importlib.import_module("rq.job")
        #: The statuses of jobs.
        self.status: Any = self._job.JobStatus
        #: The class that a job returns to run again; RQ 1 has none.
        self.retry: Any = self._job.Retry
        #: The exception for a job whose time is over.
        self.timeout: Any = importlib.import_module("rq.timeouts").JobTimeoutException
        #: The base of the classes that limit time by an alarm.
        self.alarms: Any = importlib.import_module("rq.timeouts").UnixSignalDeathPenalty
        #: The text for a result that cannot be kept.
        self.unserializable: Any = getattr(defaults, "UNSERIALIZABLE_RETURN_VALUE_PAYLOAD", "Unserializable return value")
        #: The prefix of its keys.
        self.prefix: str = getattr(defaults, "RQ_KEY_PREFIX", "rq")
        #: Gives the object at a dotted path.
        self.named: Any = utils.import_attribute
        #: Gives the current time in RQ's form.
        self.now: Any = utils.now

    def serializer(self, name: Optional[str]) -> Any:
        """The serializer for calls and results of jobs."""
        serializers = importlib.import_module("rq.serializers")
        known = {"json": serializers.JSONSerializer, "pickle": serializers.DefaultSerializer}
        return serializers.resolve_serializer(known.get(name, name) if name else None)

    def is_plain(self, klass: Any) -> bool:
        """Whether all code of a class is RQ's own: not a subclass, and not patched."""
        bases = [base for base in klass.__mro__ if base is not object]
        functions = [_function(value) for base in bases for value in vars(base).values()]
        return all(base.__module__.split(".")[0] in ("rq", "typing", "abc") for base in bases) and all(
            function.__code__.co_filename.startswith(self._place) for function in functions if function is not None)

    def never_called(self, klass: Any) -> list[str]:
        """Methods of a worker class that are not RQ's own, and are not called here; with the class that starts jobs
        another way."""
        found = [name for name in _NEVER_CALLED if not self._is_own(getattr(klass, name, None))]
        spawns: Any = getattr(importlib.import_module("rq.worker"), "SpawnWorker", None)
        return found + (["SpawnWorker"] if spawns is not None and issubclass(klass, spawns) else [])

    def _is_own(self, value: Any) -> bool:
        function = _function(value)
        return function is None or function.__code__.co_filename.startswith(self._place)

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


def _function(value: Any) -> Optional[FunctionType]:
    """The function behind a member of a class, if it is one."""
    if isinstance(value, property):
        value = value.fget
    value = getattr(value, "__func__", value)
    return value if hasattr(value, "__code__") else None
