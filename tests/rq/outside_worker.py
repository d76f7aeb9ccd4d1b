"""A plugin for pytest: RQ's tests with workers from outside. `Worker.work()` runs the command line of RQ_MEASURE_WORKER.

That is `rq` for RQ's own, `/bin/false` for none at all, or taskvisor: what follows it are the flags of `rq worker`.
"""

import os
import shlex
import shutil
import subprocess
import tempfile

from rq import SimpleWorker, Worker
from rq.job import Job
from rq.queue import Queue
from rq.worker import BaseWorker, DequeueStrategy

_OWN = BaseWorker.work
_TESTS = os.getpid()
_PATIENCE_SECONDS = 60


def _path(thing):
    return f"{thing.__module__}.{thing.__qualname__}"


def _flags(worker, burst, max_jobs, max_idle_time, with_scheduler, strategy):
    database = worker.connection.connection_pool.connection_kwargs.get("db", 0)
    flags = ["-u", f"redis://127.0.0.1:{os.environ['RQ_MEASURE_PORT']}/{database}", "-n", worker.name, "-P", "."]
    flags += ["-b"] if burst else []
    flags += ["-s"] if with_scheduler else []
    flags += ["-d"] if worker.disable_default_exception_handler else []
    if strategy not in (None, DequeueStrategy.DEFAULT):
        flags += ["-ds", getattr(strategy, "value", strategy)]
    if max_jobs is not None:
        flags += ["--max-jobs", str(max_jobs)]
    if max_idle_time is not None:
        flags += ["--max-idle-time", str(max_idle_time)]
    if worker.default_result_ttl != 500:
        flags += ["--results-ttl", str(worker.default_result_ttl)]
    if worker.job_class is not Job:
        flags += ["-j", _path(worker.job_class)]
    if worker.queue_class is not Queue:
        flags += ["--queue-class", _path(worker.queue_class)]
    if worker._serializer_arg:
        flags += ["-S", worker._serializer_arg]
    for handler in worker._exc_handlers:
        flags += ["--exception-handler", _path(handler)]
    return flags


def work(self, burst=False, logging_level=None, date_format=None, log_format=None, max_jobs=None, max_idle_time=None,
         with_scheduler=False, dequeue_strategy=DequeueStrategy.DEFAULT):
    """Runs the external worker; returns whether it has done anything."""
    if type(self) not in (Worker, SimpleWorker):
        given = {name: value for name, value in (("date_format", date_format), ("log_format", log_format)) if value}
        return _OWN(self, burst=burst, logging_level=logging_level, max_jobs=max_jobs, max_idle_time=max_idle_time,
                    with_scheduler=with_scheduler, dequeue_strategy=dequeue_strategy, **given)
    command = shlex.split(os.environ["RQ_MEASURE_WORKER"])
    directory = tempfile.mkdtemp(prefix="rq-measure-")
    environment = {**os.environ, "TASKVISOR_STATE_DIR": f"{directory}/state", "TASKVISOR_RUN_DIR": f"{directory}/run"}
    command += _flags(self, burst, max_jobs, max_idle_time, with_scheduler, dequeue_strategy)
    command += [queue.name for queue in self.queues]
    if os.getpid() != _TESTS:
        # This process becomes the worker, so that its signals reach the worker.
        os.execvpe(command[0], command, environment)
    with open(os.environ["RQ_MEASURE_LOG"], "ab") as log:
        log.write(f"\n$ {shlex.join(command)}\n".encode())
        log.flush()
        subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                       timeout=_PATIENCE_SECONDS)
    shutil.rmtree(directory, ignore_errors=True)
    counts = self.connection.hmget(self.key, "successful_job_count", "failed_job_count")
    return any(int(count or 0) for count in counts)


def pytest_configure(config):
    """Replaces the worker in this process."""
    BaseWorker.work = work


def pytest_runtest_logreport(report):
    """Records the outcome of each test."""
    if report.when == "call" or report.failed or report.skipped:
        with open(os.environ["RQ_MEASURE_OUT"], "a") as out:
            out.write(f"{report.outcome} {report.nodeid}\n")
