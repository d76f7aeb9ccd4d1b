"""The application of a worker for kale: any subclass of its `Task` that can be imported."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import traceback

from ..client import calling
from ..client.running_job import Job
from ..worker import outcome
from ..worker.application import Prepared
from ..worker.outcome import Ending
from .alarm import Alarm
from .hooks import NoHooks, WorkerHooks, make_worker
from .publishing import Publisher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    from .installed import Installed


class Tasks:
    """Finds the task for a job by its message."""

    def __init__(self) -> None:
        self._installed: Optional[Installed] = None
        self._publisher: Optional[Publisher] = None
        self._hooks = NoHooks()

    def start_up(self, installed: Installed, worker_class: Optional[Callable[[], Any]] = None) -> None:
        """Replaces kale's publisher by ours, and calls the hooks of a worker: those of its start now, the others at the end.

        `worker_class` makes the application's own worker of kale, if it has one.
        """
        publisher = self._publisher = Publisher(installed)
        installed.task._get_publisher = staticmethod(lambda: publisher)
        self._installed = installed
        if worker_class is None:
            installed.settings.ON_WORKER_STARTUP()
        else:
            self._hooks = WorkerHooks(installed, make_worker(worker_class))
        process = os.getpid()

        def shut_down() -> None:
            # Forks of a template are not separate workers: they run no shutdown hook.
            if os.getpid() == process:
                installed.settings.ON_WORKER_SHUTDOWN()
                self._hooks.shut_down()

        atexit.register(shut_down)

    def hello_classes(self) -> None:
        """None: it takes any class."""

    def has_coroutines(self) -> bool:
        """False: tasks of kale are not coroutines."""
        return False

    def find(self, job: Job) -> Prepared:
        """The task; if there is none, running it says why."""
        assert self._installed is not None and self._publisher is not None
        return Prepared(Call(job, self._installed, self._publisher, self._hooks).run)


class Call:
    """A task with its job."""

    def __init__(self, job: Job, installed: Installed, publisher: Publisher, hooks: NoHooks) -> None:
        self._job = job
        self._installed = installed
        self._publisher = publisher
        self._hooks = hooks

    def run(self) -> Any:
        """Runs the task and returns how the job ends."""
        try:
            klass = self._class()
            message = self._message(klass)
            task = message.task_inst = klass(message._get_message_body())
        except (Exception, SystemExit) as error:
            print(f"taskvisor.kale: job {self._job.id} has no task that can run", file=sys.stderr)
            return _failed(error)
        self._hooks.begin(self._job, message)
        try:
            return self._ended(klass, message)
        finally:
            self._hooks.end(message)

    def _ended(self, klass: Any, message: Any) -> Any:
        try:
            with Alarm(self._job, message.task_inst.time_limit, self._installed.exceptions.TimeoutException):
                if not self._hooks.should_run(message):
                    return self._later(klass, message)
                calling.call(self._hooks.run, (message,), {})
        except (Exception, SystemExit) as error:
            return self._raised(klass, message, error)
        self._hooks.succeeded(message)
        return None

    def _class(self) -> Any:
        """The class that the job names, or the one that TASK_MAPPER has for it."""
        name = self._installed.settings.TASK_MAPPER.get(self._job.class_name, self._job.class_name)
        module, _, last = name.rpartition(".")
        if not module:
            raise ImportError(f"the class {name!r} names no module; a task is called module.Class")
        klass = getattr(importlib.import_module(module), last)
        if not (isinstance(klass, type) and issubclass(klass, self._installed.task)):
            raise TypeError(f"{name} is no subclass of kale.task.Task")
        return klass

    def _message(self, klass: Any) -> Any:
        """The message: a body of kale, or plain JSON with `args`, `kwargs` and `app_data`."""
        data = self._job.data
        if isinstance(data, str):
            return self._installed.message.decode_str(data)
        plain = {} if data is None else data
        if not isinstance(plain, dict) or not set(plain) <= {"args", "kwargs", "app_data"}:
            raise TypeError("the data is neither a message of kale nor an object with 'args', 'kwargs' and 'app_data'")
        payload = {"args": plain.get("args", []), "kwargs": plain.get("kwargs", {}), "app_data": plain.get("app_data")}
        task_id = f"{klass.__name__}_uuid_{self._job.id}"
        return self._installed.message(task_class=klass, task_id=task_id, payload=payload)

    def _later(self, klass: Any, message: Any) -> Ending:
        """should_run_task() returned false: the task comes back after longer and longer waits, until it may run."""
        self._publisher.watch(message.task_id)
        klass.republish(message, message.task_failure_num)
        return self._again(None)

    def _raised(self, klass: Any, message: Any, error: BaseException) -> Ending:
        """The task's own handle_failure() decides, as in kale."""
        self._publisher.watch(message.task_id)
        try:
            retried = klass.handle_failure(message, error)
        except Exception as second:
            print(f"taskvisor.kale: handle_failure() of {self._job.class_name} raised:", file=sys.stderr)
            traceback.print_exc()
            self._publisher.kept()
            return _failed(second)
        self._hooks.failed(message, error, not retried)
        if not retried:
            self._publisher.kept()
            return _failed(error)
        return self._again(error)

    def _again(self, error: Optional[BaseException]) -> Ending:
        """The job waits with the new message, whose counters are kale's: taskvisor counts no attempt."""
        again = self._publisher.kept()
        reason = None if error is None else outcome.describe(error)
        if again is None:
            # The application's own handle_failure() has seen to the retry.
            return Ending("complete", result=None)
        runtime = self._job.runtime
        assert runtime is not None
        runtime.call("data", {"id": self._job.id, "fence": self._job.fence, "data": again.body})
        if error is not None:
            traceback.print_exception(type(error), error, error.__traceback__)
            print(f"taskvisor.kale: kale runs the task again after {again.delay:g} s", file=sys.stderr)
        return Ending("snooze", after=again.delay, error=reason)


def _failed(error: BaseException) -> Ending:
    return Ending("failed_for_good", error=outcome.describe(error))
