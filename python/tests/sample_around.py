"""Jobs with middleware around them, and sentry-sdk with a transport that keeps events in files, where it is wanted."""

import asyncio
import contextvars
import json
import os
import signal
import sys
import time

from taskvisor import Middleware, Retry, TimeLimitExceeded, current_job, job, middleware, progress

request = contextvars.ContextVar("request", default=None)
seen = []


class Noting(Middleware):
    def __init__(self, name):
        self.name = name

    def before(self, job):
        request.set(job.id)
        if job.class_name.endswith(".notes"):
            return
        seen.append(f"{self.name} before")
        if job.data == ["refused"]:
            raise PermissionError("not today")

    def after(self, job, result):
        if job.class_name.endswith(".notes"):
            return
        seen.append(f"{self.name} after {result}")
        if result == "late":
            print(seen[-1])
        if result == "trips":
            raise ValueError("after")
        if result == "exits":
            sys.exit("after")
        if isinstance(result, str) and result.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, result))
        if result == "lingers":
            progress(message="in after")
            deadline = time.monotonic() + 10
            while not job.canceled and time.monotonic() < deadline:
                time.sleep(0.01)

    def failure(self, job, error):
        if job.class_name.endswith(".blocks"):
            print(f"{self.name} cleans up")
            with open(request.get(), "a") as file:
                file.write(f"{self.name} {type(error).__name__} {current_job().id}\n")
            if self.name == "outer":
                time.sleep(60)
        seen.append(f"{self.name} failure {type(error).__name__}")
        if job.class_name.endswith(".goes_on"):
            print(seen[-1])


middleware(Noting("outer"))
middleware(Noting("inner"))


@job
def plain(word):
    if word == "raises":
        raise LookupError("no such word")
    if word == "again":
        raise Retry(after=1)
    return word if request.get() == current_job().id else "no context"


@job
async def waits(word):
    await asyncio.sleep(0)
    return plain(word)


@job
def goes_on():
    progress(message="begun")
    deadline = time.monotonic() + 10
    while not current_job().canceled and time.monotonic() < deadline:
        try:
            time.sleep(0.01)
        except TimeLimitExceeded:
            break
    return "late"


@job
async def blocks(place):
    request.set(place)
    time.sleep(60)


@job
async def naps():
    progress(0.5)
    await asyncio.sleep(60)


@job
async def asks():
    return [current_job().put_at.isoformat() for _ in range(2)]


@job
def asked():
    return [current_job().put_at.isoformat() for _ in range(2)]


@job
def notes():
    """What was noted so far, of other jobs."""
    noted = seen[:]
    del seen[:]
    return noted


if os.environ.get("EVENTS"):
    import logging

    import sentry_sdk
    from sentry_sdk.transport import Transport

    class Files(Transport):
        def capture_envelope(self, envelope):
            event = envelope.get_event()
            if event is not None:
                with open(os.path.join(os.environ["EVENTS"], event["event_id"]), "w") as file:
                    json.dump(event, file, default=str)

    sentry_sdk.init(dsn="http://key@localhost/1", transport=Files, traces_sample_rate=0)

    @job
    def crumbles(word):
        logging.getLogger("app").warning("crumb of %s", word)
        if word != "fine":
            raise KeyError(word)


if __name__ == "__main__":
    sys.exit("a worker loads it")
