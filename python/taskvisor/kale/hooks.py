"""The hooks of a worker of kale, called around each task as kale calls them around a batch of one."""

from __future__ import annotations

import signal
import sys
import time
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..client.running_job import Job
    from .installed import Installed


class NoHooks:
    """Runs tasks as kale's own worker class does."""

    def begin(self, job: Job, message: Any) -> None:
        """The task of a job is about to run."""

    def should_run(self, message: Any) -> Any:
        """Whether the task may run now."""
        return message.task_inst.should_run_task(*message.task_args, **message.task_kwargs)

    def run(self, message: Any) -> None:
        """Runs the task."""
        message.task_inst.run(*message.task_args, **message.task_kwargs)

    def succeeded(self, message: Any) -> None:
        """The task has run well."""

    def failed(self, message: Any, error: BaseException, for_good: bool) -> None:
        """The task has raised, and kale has decided whether it runs again."""

    def end(self, message: Any) -> None:
        """The task has ended, whether it has run or not."""

    def shut_down(self) -> None:
        """The worker ends."""


class WorkerHooks(NoHooks):
    """Calls the hooks of an application's worker. One that raises costs no task: its trace is in the log of the job."""

    def __init__(self, installed: Installed, worker: Any) -> None:
        self._installed = installed
        self._worker = worker
        self._queues = installed.queues()
        self._remaining = 0.0
        self._call(worker._on_pre_run_worker)

    def begin(self, job: Job, message: Any) -> None:
        """Sets what kale's worker knows of a batch: this message, in the queue of its job."""
        worker = self._worker
        try:
            queue = self._queues.get_queue(job.queue)
        except KeyError:
            queue = self._installed.queue_info.TaskQueue(name=job.queue)
        message.id, message.sqs_queue_name = job.id, queue.name
        worker._batch_queue = queue
        worker._incomplete_messages = [message]
        worker._successful_messages, worker._failed_messages, worker._permanent_failures = [], [], []
        self._call(worker._on_pre_batch_run, [message])
        self._remaining = queue.visibility_timeout_sec
        worker._batch_stop_time = time.time() + self._remaining

    def should_run(self, message: Any) -> Any:
        """Asks the worker, which may override it."""
        return self._worker.should_run_task(message)

    def run(self, message: Any) -> None:
        """Runs the task by the worker, which may override it."""
        self._worker.run_task(message)

    def succeeded(self, message: Any) -> None:
        """Calls its hook."""
        self._worker._successful_messages.append(message)
        self._call(self._worker._on_task_succeeded, message, self._remaining)

    def failed(self, message: Any, error: BaseException, for_good: bool) -> None:
        """Calls its hook."""
        worker = self._worker
        worker._failed_messages.append(message)
        if for_good and self._installed.settings.USE_DEAD_LETTER_QUEUE:
            worker._permanent_failures.append(message)
        self._call(worker._on_task_failed, message, self._remaining, error, for_good)

    def end(self, message: Any) -> None:
        """Calls the hooks of a batch that ends."""
        worker = self._worker
        worker._total_messages_processed += bool(worker._successful_messages or worker._failed_messages)
        if worker._permanent_failures and self._installed.settings.ENABLE_DEAD_LETTER_QUEUE:
            self._call(worker._on_permanent_failure_batch)
        worker._incomplete_messages, worker._successful_messages = [], []
        worker._failed_messages, worker._permanent_failures = [], []
        self._call(worker._on_post_batch_run, 1, 0, [message])

    def shut_down(self) -> None:
        """Calls its hook: no task is under way."""
        self._call(self._worker._on_shutdown, 0, 0)

    def _call(self, hook: Callable[..., Any], *arguments: Any) -> None:
        try:
            hook(*arguments)
        except (Exception, SystemExit):
            print(f"taskvisor.kale: {hook.__name__}() of the worker raised:", file=sys.stderr)
            traceback.print_exc()


def make_worker(make: Callable[[], Any]) -> Any:
    """A worker of kale that opens no session of AWS and leaves the signals as they are. Calls ON_WORKER_STARTUP."""
    from importlib import import_module

    talk: Any = import_module("kale.sqs").SQSTalk
    kale_worker: Any = import_module("kale.worker")
    handlers = [(number, signal.getsignal(number)) for number in kale_worker.SIGNALS_TO_HANDLE]
    opens, talk.__init__ = talk.__init__, lambda _self, *_args, **_more: None
    try:
        worker = make()
        if not isinstance(worker, kale_worker.Worker):
            raise TypeError(f"{make!r} makes no kale.worker.Worker")
        return worker
    finally:
        talk.__init__ = opens
        for number, handler in handlers:
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
