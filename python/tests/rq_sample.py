"""Functions of an application that uses RQ, as jobs for tests."""

import logging
import os
import sys
import threading
import time

from redis import Redis
from rq import Queue, Worker, get_current_job
from rq.job import Job


def add(a, b=1):
    print("adds", a, b)
    return a + b


def fails():
    raise ValueError("it fails")


async def later(text):
    import asyncio

    await asyncio.sleep(0)
    return f"{text} {get_current_job().id}"


class Counter:
    def __init__(self, start):
        self.start = start

    def plus(self, n):
        return self.start + n

    @staticmethod
    def static(n):
        return -n


def nothing():
    return None


def a_lock():
    return threading.Lock()


def leaves():
    sys.exit(3)


def keeps_meta(key):
    job = get_current_job()
    job.meta[key] = os.environ["RQ_JOB_ID"]
    job.save_meta()
    return dict(job.meta)


def changes_itself(fail=False):
    get_current_job().description = "changed"
    if fail:
        raise ValueError("after the change")


def too_long():
    time.sleep(10)


def swallows_the_timeout():
    from rq.timeouts import JobTimeoutException

    try:
        time.sleep(10)
    except JobTimeoutException as error:
        return str(error)


def again(times=3, at_front=False):
    from rq import Retry

    return Retry(max=times, interval=[1, 2], enqueue_at_front=at_front)


def success(job, connection, result):
    print("success", job.id, job.get_status(refresh=False).value, result)


def failure(job, connection, kind, error, trace):
    print("failure", job.id, job.get_status(refresh=False).value, kind.__name__, error, trace is not None)


def stopped(job, connection):
    print("stopped", job.id)


def raises(*_arguments):
    raise KeyError("the callback itself")


def asks_redis(job, connection, result):
    connection.set("asked", result)


def too_long_callback(job, connection, result):
    time.sleep(10)


def handler(job, kind, error, trace):
    print("handler", job.id, kind.__name__)


def last_handler(job, kind, error, trace):
    print("last handler", job.id)
    return False


def dies():
    os._exit(0)


def waits():
    import taskvisor

    taskvisor.progress(0, "waits")
    time.sleep(30)


class OwnWorker(Worker):
    def perform_job(self, job, *args, **kwargs):
        print(type(self).__name__, "performs", type(job).__name__)
        return super().perform_job(job, *args, **kwargs)


class WatchingWorker(Worker):
    """Overrides what the supervisor does in its place."""

    def execute_job(self, job, queue):
        return super().execute_job(job, queue)

    def register_birth(self):
        print("is born")

    def teardown(self):
        print("is gone")


def django_is_ready():
    from django.apps import apps

    return apps.ready


class OwnJob(Job):
    pass


class OwnQueue(Queue):
    pass


class OwnConnection(Redis):
    pass


def logs():
    logging.info("a word")


#: As in a config module of RQ.
DICT_CONFIG = {
    "version": 1, "disable_existing_loggers": False, "formatters": {"own": {"format": "own %(message)s"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "own"}},
    "root": {"handlers": ["out"], "level": "INFO"}}
