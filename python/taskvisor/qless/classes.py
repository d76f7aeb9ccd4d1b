"""The application of a worker for qless: finds the method for a job by the job's class and queue."""

from __future__ import annotations

import types

from ..client import calling
from ..client.arguments import is_async
from ..client.running_job import Job as Run
from .importing import Freshness, imported
from .job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable, Optional


class Classes:
    """The application of a worker for qless: any class that can be imported."""

    def __init__(self, reloads: bool) -> None:
        self._fresh = Freshness() if reloads else None

    def hello_classes(self) -> None:
        """None: it takes any class."""

    def has_coroutines(self) -> bool:
        """False: whether a class has coroutines is known only when it is imported for its job."""
        return False

    def find(self, run: Run) -> Call:
        """The method; if there is none, running it says why and the job fails."""
        job = Job(run)
        try:
            klass = imported(job.klass_name, self._fresh)
            name = job.queue_name if hasattr(klass, job.queue_name) else "process"
            method = getattr(klass, name, None)
        except (Exception, SystemExit) as error:
            return Call(job, None, type(error).__name__, error)
        if method is None:
            why = f'{job.klass_name} is missing a method "{job.queue_name}" or "process"'
            return Call(job, None, "method-missing", AttributeError(why))
        if not _is_static(klass, name, method):
            why = f"{job.klass_name}.{name} is not static: put @staticmethod above it"
            return Call(job, None, "method-type", TypeError(why))
        return Call(job, method)


class Call:
    """A method with its job."""

    def __init__(self, job: Job, method: Any, suffix: str = "", error: Optional[BaseException] = None) -> None:
        self._job = job
        self._method = method
        self._refused = None if error is None else job.failed_by(suffix, error)
        self.is_async: bool = method is not None and is_async(method)

    @property
    def function(self) -> Callable[[], Any]:
        """Runs the method and returns how the job ends."""
        return self._await if self.is_async else self._run

    def call_for(self, _data: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """No arguments: the job has its data."""
        return (), {}

    def _run(self) -> Any:
        if self._refused is not None:
            return self._refused
        try:
            calling.call(self._method, (self._job,), {})
            return self._job.returned()
        except (Exception, SystemExit) as error:
            return self._job.raised(error)

    async def _await(self) -> Any:
        try:
            await calling.call_async(self._method, (self._job,), {})
            return self._job.returned()
        except (Exception, SystemExit) as error:
            return self._job.raised(error)


def _is_static(klass: Any, name: str, method: Any) -> bool:
    """Whether a method is static. In Python 3 a plain function in a class counts as static if it can take the job
    alone.

    >>> class Mail:
    ...     def process(self, job): ...
    ...     def mail(job): ...
    >>> _is_static(Mail, "process", Mail.process), _is_static(Mail, "mail", Mail.mail)
    (False, True)
    """
    if not isinstance(method, types.FunctionType):
        return False
    mro = getattr(klass, "__mro__", ())
    kept = next((vars(base)[name] for base in mro if name in vars(base)), None)
    needed = method.__code__.co_argcount - len(method.__defaults__ or ())
    return isinstance(kept, staticmethod) or needed < 2
