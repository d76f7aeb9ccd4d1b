"""Classes written for qless-py, for the tests of the worker that runs them."""

import json
import os
import sys

import qless
from qless import retry
from qless.exceptions import LostLockException

import taskvisor

LOADED_BY = os.getpid()


def what_happens(call):
    """The result of the call, or its exception."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class Plain:
    """The simplest class."""

    @staticmethod
    def process(job):
        print("in", job.queue_name)
        job.complete()

    @staticmethod
    def mail(job):
        print("in mail for", job["to"])
        job.complete()


class Shows:
    """Prints the attributes of its job."""

    @staticmethod
    def process(job):
        known = {name: getattr(job, name) for name in job["names"]}
        print(json.dumps(known, default=repr, sort_keys=True))
        job.complete()


class Calls:
    """Calls the methods of the job that its data lists, and prints each result."""

    @staticmethod
    def process(job):
        for name, arguments in job["calls"]:
            if name == "set":
                job[arguments[0]] = arguments[1]
            elif name == "raise":
                raise ValueError(arguments[0])
            else:
                print(json.dumps([name, what_happens(lambda: getattr(job, name)(*arguments))]))


class Modern:
    """Uses the exceptions of taskvisor."""

    @staticmethod
    def process(job):
        raise taskvisor.Retry(after=3)

    @staticmethod
    def late(job):
        job.complete()
        raise taskvisor.Fail("too late")


class Silent:
    """Returns without setting an outcome."""

    @staticmethod
    def process(job):
        pass


class Unsendable:
    """Changes its data into a value that is no JSON."""

    @staticmethod
    def process(job):
        job["x"] = object()
        job.complete()


class NoMethod:
    """Has no method that fits."""

    other = 1


class NotStatic:
    """Methods that cannot be called with a job only."""

    def process(self, job):
        job.complete()

    @classmethod
    def by_class(cls, job):
        job.complete()

    def forgotten(job):
        job.complete()


class Tries:
    """Is retried for some errors only."""

    @staticmethod
    @retry(ConnectionError, KeyError)
    def process(job):
        raise {"key": KeyError, "value": ValueError}[job["error"]]("why")


class Awaits:
    """A coroutine."""

    @staticmethod
    async def process(job):
        print("awaited")
        job.complete()

    @staticmethod
    @retry(OSError)
    async def again(job):
        raise OSError("busy")


class Exits:
    """Exits by sys.exit, or dies."""

    @staticmethod
    def process(job):
        sys.exit(3)

    @staticmethod
    def dies(job):
        job.complete()
        os._exit(0)


class Where:
    """Prints its directory, and leaves a file there."""

    @staticmethod
    def process(job):
        print(what_happens(lambda: job.sandbox), os.getcwd() == what_happens(lambda: job.sandbox))
        job.complete()


class Puts:
    """Uses other jobs."""

    @staticmethod
    def process(job):
        print("put", job.client.queues["other"].put(Plain, {"n": 1}, priority=3, delay=2, tags=["x"], retries=1))
        print("put", job.queue.put("elsewhere.Class", None, jid="mine", depends=["a"]))
        other = job.client.jobs["a"]
        print(other.state, other.data, other.failure["group"], other.retries_left, other.dependents)
        print(job.client.jobs["none"])
        print(what_happens(lambda: job.client.redis))
        print(what_happens(lambda: job.queue.pop()))
        job.complete()


class Names:
    """Uses the names of `import qless`."""

    @staticmethod
    def process(job):
        assert issubclass(LostLockException, qless.QlessException)
        assert isinstance(job, qless.job.Job)
        print(what_happens(lambda: qless.Client(host="localhost")))
        print(LOADED_BY == os.getpid())
        job.complete()
