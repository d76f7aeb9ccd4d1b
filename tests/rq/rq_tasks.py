"""Jobs of an application that uses RQ."""

import os
import subprocess
import time

from rq import Retry, Worker, get_current_job


def add(a, b):
    return a + b


def fails():
    raise ValueError("no luck")


def fails_for_good(path):
    from taskvisor import Fail

    note(path)
    raise Fail("no such sensor")


def note(path, text="ran"):
    with open(path, "a") as file:
        file.write(text + "\n")


def waits(path):
    """Runs until the file is removed; records that it has begun."""
    note(path + ".begun", str(os.getpid()))
    while os.path.exists(path):
        time.sleep(0.01)
    return "waited"


def reports(path):
    """Reports its progress in the ways of taskvisor and of RQ, and waits."""
    from taskvisor import progress

    job = get_current_job()
    job.meta["step"] = "first"
    job.save_meta()
    progress(0.5, "half of it")
    return waits(path)


def leaves_a_child(path):
    """Starts a process of its own session, and waits."""
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    note(path, str(child.pid))
    time.sleep(1000)


def exits(code):
    os._exit(code)


def dies():
    os.kill(os.getpid(), 9)


def sleeps(seconds):
    time.sleep(seconds)


def long_result(count):
    return b"x" * count


def cleans_up(path, seconds):
    """Takes its time after its timeout."""
    try:
        time.sleep(100)
    finally:
        time.sleep(seconds)
        note(path)


def tries_again(path):
    note(path)
    return Retry(max=2, interval=0)


def name():
    return get_current_job().worker_name


def failed(job, connection, kind, error, trace):
    connection.set("callback", f"{job.id} {error}")


def stopped(job, connection):
    connection.set("stopped", f"{job.id} {os.getpid()}")


class Horses(Worker):
    """A worker class with a handler for dead work horses."""

    def handle_work_horse_killed(self, job, retpid, ret_val, rusage):
        job.connection.set("killed", f"{job.id} {ret_val} {rusage.ru_maxrss > 0}")


def stops_slowly(job, connection):
    waits(connection.get("slow").decode())


def succeeded(job, connection, result):
    connection.set("succeeded", f"{job.id} {result}")


def notes_in_redis(key):
    job = get_current_job()
    job.connection.set(key, job.id)
    job.meta["noted"] = True
    job.save_meta()
