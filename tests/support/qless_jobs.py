"""Classes written for qless-py, for tests with the real binary."""

import json
import os
import re
import signal
import time

import qless


def tell(call):
    """Prints the result of the call, or its exception."""
    try:
        print(json.dumps(call()))
    except Exception as error:
        print(f"{type(error).__name__}: {error}")


class Mail:
    """Two methods for two queues."""

    @staticmethod
    def mail(job):
        print("mail to", job["to"])
        job.complete()

    @staticmethod
    def process(job):
        print("processed in", job.queue_name, "for", job["to"])
        job.complete()


class Film:
    """A pipeline: each stage stores in the data what the next one needs."""

    @staticmethod
    def download(job):
        job["bytes"] = 5
        print(job.complete("encode"))

    @staticmethod
    def encode(job):
        print("encodes", job["bytes"], "bytes")
        job.data = {"done": True}
        job.complete()


class Words:
    """Makes the calls about its end that its data lists, in order."""

    @staticmethod
    def process(job):
        for name, *arguments in job["words"]:
            if name == "raise":
                raise KeyError(*arguments)
            tell(lambda: getattr(job, name)(*arguments))


class Silent:
    """Returns without setting an outcome."""

    @staticmethod
    def process(job):
        print("silent")


class Wrong:
    """Methods that cannot be called with a job."""

    def process(self, job):
        job.complete()


class Empty:
    """No method at all."""


class Tries:
    """Fails always."""

    @staticmethod
    @qless.retry(OSError)
    def process(job):
        print("left", job.original_retries, job.retries_left)
        raise OSError("no luck")


class Dies:
    """Exits after complete() without returning."""

    @staticmethod
    def process(job):
        job.complete()
        os._exit(0)


class Hangs:
    """Ignores all interrupts."""

    @staticmethod
    def process(job):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open(".hangs", "w") as file:
            file.write(str(os.getpid()))
        os.rename(".hangs", "hangs")
        while True:
            time.sleep(3600)


class EndsItself:
    """Cancels its own job."""

    @staticmethod
    def process(job):
        job.cancel()
        while True:
            time.sleep(3600)


class Asks:
    """Makes every call that goes through the supervisor."""

    @staticmethod
    def process(job):
        tell(lambda: job.tag("a", "b"))
        tell(lambda: job.untag("a"))
        tell(job.track)
        job.priority = 7
        tell(lambda: (job.heartbeat() - time.time()) > 1)
        tell(lambda: re.fullmatch(r".+-[0-9a-f]{8}-default\.1", job.worker_name) is not None)
        tell(lambda: [job.tracked, job.dependents, job.history[0]["what"], job.failure])
        tell(lambda: job.client.queues["later"].put(Silent, {"from": job.jid}, delay=3600, jid="child"))
        tell(lambda: [job.client.jobs["child"].state, job.client.jobs["child"].data, job.client.jobs["none"]])
        tell(lambda: job.client.queues["later"].put(Silent, None, jid="child"))
        tell(lambda: job.client.jobs["child"].cancel())
        tell(lambda: job.depend("child"))
        job.log("a line", n=1)
        job.complete()


class Where:
    """Works in its directory, and leaves a file there."""

    @staticmethod
    def process(job):
        print(os.listdir("."), os.getcwd() == job.sandbox)
        open("left", "w").close()
        job.complete()
