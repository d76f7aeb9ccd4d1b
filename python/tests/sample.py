"""An application with jobs of every kind, for the tests."""

import asyncio
import contextvars
import atexit
import collections
import concurrent.futures
import contextvars
import ctypes
import itertools
import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time

import taskvisor
from taskvisor import (
    Advance, Fail, Interrupted, Retry, Snooze, SoftTimeLimitExceeded, TimeLimitExceeded, current_job, job, progress, put, put_many
)

log = logging.getLogger("sample")


@job("add", queue="sums", time_limit=60, retries=3, retry_delay=1, retry_cap=900)
def add(a, b=1):
    return a + b


@job
def echo(value=None):
    return value


@job("async_add")
async def async_add(a, b=1):
    await asyncio.sleep(0)
    return a + b


@job("all")
def all_of(*values):
    return list(values)


@job("noop")
def noop():
    pass


@job("about")
def about():
    me = current_job()
    return [me.id, me.class_name, me.queue, me.attempt, me.priority, me.tags, me.data, me.time_limit, me.time_left]


@job("body")
def body(data):
    return [type(data).__name__, list(data)]


@job("raise_error")
def raise_error(kind):
    if kind == "exit":
        sys.exit(3)
    if kind == "own":
        class Broken(Exception):
            pass
        raise Broken("own")
    if kind == "chain":
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer ünïcode \ud800") from error
    if kind == "retry":
        raise Retry(after=30)
    if kind == "retry why":
        raise Retry(after=1.5, reason="busy")
    if kind == "snooze":
        raise Snooze(after=60)
    if kind == "fail":
        raise Fail("no such user")
    if kind == "unprintable":
        class Unprintable(Exception):
            def __str__(self):
                raise RuntimeError
        raise Unprintable
    raise {"value": ValueError, "interrupt": KeyboardInterrupt}[kind]("no")


@job("film")
def film(stage):
    if stage == "all":
        return Advance("encode", {"bytes": 5}, delay=1.5, depends=["a", "b"])
    return Advance("encode", {"bytes": object()}) if stage == "bad" else Advance("encode")


@job("async_film")
async def async_film():
    return Advance("encode")


@job("result")
def result(kind):
    value = {"set": {1}, "nan": float("nan"), "surrogate": "\ud800", "huge": "x" * (17 << 20), "bytes": b"x"}[kind]
    return {kind: value}


@job("long")
def long(size):
    return "ü" * size


@job("report")
def report():
    for step in range(3):
        progress(step / 2, f"step {step}")
    progress(7)


@job("alternates")
def alternates():
    for number in range(400):
        print(number, file=(sys.stdout, sys.stderr)[number % 2])


@job("say")
def say(text):
    print(text)
    print("no newline", end="")
    print(text, file=sys.stderr)
    log.info("logged %s", text)


@job("put_inside")
def put_inside(how="put"):
    if how == "thread":
        ids = []
        thread = threading.Thread(target=lambda: ids.append(add.put(1)))
        thread.start()
        thread.join()
        return ids
    if how == "many":
        return put_many([add.prepare(n) for n in range(3)])
    if how == "foreign":
        return put("ruby", "Mail::Send", [1, "two"], priority=-3)
    return add.options(delay=10, priority=5, tags=["x"], queue="q2", retries=1, time_limit=5, id="my").put(1, b=2)


@job("aput_inside")
async def aput_inside(blocking=False):
    return add.put(1) if blocking else await add.aput(1)


def wait(swallow=None):
    try:
        progress(message="waiting")
        time.sleep(30)
    except Exception:
        return "swallowed by except Exception"
    except Interrupted:
        if swallow:
            return "ended in peace"
        raise
    return "woke up"


job("wait")(wait)


@job("time_to_leave")
def time_to_leave():
    try:
        progress(message="waiting")
        time.sleep(30)
    except Interrupted:
        print(current_job().time_left)
        raise


@job("async_time_to_leave")
async def async_time_to_leave():
    try:
        progress(message="waiting")
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        progress(message=str(current_job().time_left))
        raise


@job("async_wait")
async def async_wait(stubborn=0):
    progress(message="waiting")
    try:
        await asyncio.sleep(30)
    finally:
        print("cleaned up")
        if stubborn:
            await asyncio.sleep(stubborn)
            progress(message="really over")


@job("slow_to_leave")
def slow_to_leave():
    atexit.register(print, "left in order")
    # The interpreter would wait for the thread before it exits.
    threading.Thread(target=time.sleep, args=[60]).start()
    wait()


@job("busy_thread")
def busy_thread():
    progress(message="waiting")
    while not current_job().canceled:
        time.sleep(0.001)
    progress(message="really over")
    return "seen"


@job("where")
def where():
    return [os.getcwd(), os.environ["TASKVISOR_MODE"]]


@job("close")
def close_descriptor(descriptor, again=False):
    os.close(descriptor)
    if again:
        os.open("/dev/null", os.O_WRONLY)


@job("close_streams")
def close_streams():
    print("before", end="")
    sys.stdout.close()
    sys.stderr.close()


@job("close_all")
def close_all():
    os.closerange(0, 1024)


@job("fork_and_return")
def fork_and_return():
    pid = os.fork()
    if pid == 0:
        return "the child speaks"
    return os.waitpid(pid, 0)[1]


@job("async_fork_and_return")
async def async_fork_and_return():
    return fork_and_return()


@job("fork_and_put")
def fork_and_put(socket):
    os.environ["TASKVISOR_SOCKET"] = socket
    pid = os.fork()
    if pid == 0:
        try:
            add.put(5)
        finally:
            os._exit(7)
    return os.WEXITSTATUS(os.waitpid(pid, 0)[1])


@job("vanish")
def vanish():
    os._exit(0)


@job("children")
def children():
    done = subprocess.run(["echo", "from a program"], stdout=subprocess.PIPE, check=True)
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
    process.start()
    process.terminate()
    process.join()
    return [done.stdout.decode(), process.exitcode]


@job("thread_job")
async def thread_job():
    def inside():
        print("in a thread")
        return current_job().id
    loop = asyncio.get_running_loop()
    mine = await loop.run_in_executor(None, contextvars.copy_context().run, inside)
    task = loop.create_task(_id_of_task())
    return [mine, await task]


async def _id_of_task():
    return current_job().id


@job("plain_thread")
def plain_thread():
    print("from a plain function")
    return [current_job().id, threading.current_thread() is threading.main_thread()]


@job("chatter")
async def chatter(name):
    for number in range(20):
        print(f"{name} {number}", end="")
        await asyncio.sleep(0)
        print("!")
        log.warning("%s %d", name, number)
    return name


@job("flood")
async def flood(lines):
    for _ in range(lines):
        print("x" * 1000)


@job("exit_in_task")
async def exit_in_task():
    async def leave():
        sys.exit(9)
    task = asyncio.get_running_loop().create_task(leave())
    try:
        await task
    except SystemExit:
        return "survived"


@job("identity")
def identity():
    libc = ctypes.CDLL(None)
    signal_number, subreaper = ctypes.c_int(0), ctypes.c_int(0)
    libc.prctl(2, ctypes.byref(signal_number), 0, 0, 0)
    libc.prctl(37, ctypes.byref(subreaper), 0, 0, 0)
    files = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            files[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass
    return {"pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0), "pdeathsig": signal_number.value,
            "subreaper": subreaper.value, "files": files, "threads": len(os.listdir("/proc/self/task")),
            "native": threading.get_native_id(), "noted": threading.main_thread().native_id}


@job("random")
def random_number():
    return random.random()


_forks = []
os.register_at_fork(before=lambda: _forks.append("before"), after_in_child=lambda: _forks.append("child"),
                    after_in_parent=lambda: _forks.append("parent"))


@job("hooks")
def hooks():
    return _forks


@job("threads_work")
def threads_work():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(asyncio.run(_id_of_task())))
    thread.start()
    thread.join()
    return seen + [subprocess.run(["true"]).returncode]


assert issubclass(TimeLimitExceeded, Interrupted) and taskvisor.__version__


@job("goes_on")
def goes_on():
    try:
        time.sleep(30)
    except SoftTimeLimitExceeded as error:
        progress(message=type(error).__name__)
    time.sleep(30)


class Own:
    """No JSON."""


def functions_by_class():
    from taskvisor.client import registry
    return registry.functions


beats = threading.Event()
variable = contextvars.ContextVar("variable", default="unset")


@job("changes")
def changes(directory):
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.alarm(1000)
    os.umask(0o777)
    os.chdir(directory)
    variable.set("set")
    threading.Thread(target=beats.wait, name="beat", daemon=True).start()
    if directory.endswith("gone"):
        os.rmdir(directory)


@job("changed")
def changed():
    umask = os.umask(0)
    os.umask(umask)
    return [signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL, signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
            signal.alarm(0), umask, os.getcwd(), variable.get()]


left = {}
pool = concurrent.futures.ThreadPoolExecutor(1)


@job("leaves_a_thread")
def leaves_a_thread():
    """Leaves a thread that continues when the next job lets it, and a pool thread that also works for the next job."""
    go = threading.Event()

    def late():
        go.wait()
        print("half a", end="")
        print(" line, late")
        log.info("late")
        left["job"] = [current_job().id, add_progress()]

    thread = threading.Thread(target=late, name="stray")
    thread.start()
    left.update(go=go, thread=thread)
    return pool.submit(lambda: current_job().id).result()


def add_progress():
    progress(message=threading.current_thread().name)


@job("meets_a_thread")
def meets_a_thread():
    left["go"].set()
    left["thread"].join()
    print("my own")
    pool.submit(add_progress).result()
    return left["job"]


@job("crash")
async def crash(how):
    print("the last line")
    print("and one on stderr", file=sys.stderr)
    if how == "exit":
        os._exit(3)
    ctypes.string_at(0)


@job("crash_in_thread")
def crash_in_thread():
    print("the last line")
    ctypes.string_at(0)


async def nap():
    progress(message="waiting")
    await asyncio.sleep(30)


@job("async_nap")
async def async_nap():
    await nap()


@job("tells")
def tells():
    while True:
        progress(message="busy")


@job("told_in_ours")
def told_in_ours():
    """Gets SIGTERM while `progress` is in the json module of the standard library."""
    def profile(frame, event, _arg):
        if event == "call" and frame.f_code.co_filename.endswith("json/encoder.py"):
            os.kill(os.getpid(), signal.SIGTERM)
    sys.setprofile(profile)
    progress(message="busy")


@job("calls_a_job")
def calls_a_job():
    told_in_ours()


@job("does")
def does(code, result="None"):
    """Runs code, and returns the value of an expression after it."""
    scope = dict(globals())
    exec(code, scope)
    return eval(result, scope)


def blocks_here(seconds):
    time.sleep(seconds)


@job("blocks")
async def blocks(how="itself"):
    """Keeps the loop from turning, itself or in a task that it has made."""
    print("blocks")
    if how == "in a task":
        async def inside():
            blocks_here(60)
        await asyncio.get_running_loop().create_task(inside())
    blocks_here(60)


@job("is_busy")
async def is_busy(seconds):
    """Computes all the time, and lets the loop turn now and then."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        blocks_here(0.05)
        await asyncio.sleep(0)


def computes_here(seconds):
    end = time.thread_time() + seconds
    # All of it is C code, which keeps the interpreter's lock.
    collections.deque(itertools.takewhile(end.__gt__, iter(time.thread_time, None)), maxlen=0)


@job("computes")
async def computes(seconds):
    print("computes")
    computes_here(seconds)


blocked = threading.Event()


@job("returns_meanwhile")
def returns_meanwhile():
    """Ends in its thread once a job blocks the loop."""
    progress(message="waiting")
    blocked.wait()
    return "whole"


@job("lets_return_and_blocks")
async def lets_return_and_blocks():
    blocked.set()
    time.sleep(60)


@job("many_threads")
async def many_threads(number):
    """Ends once so many threads have begun."""
    barrier = threading.Barrier(number)
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(None, barrier.wait, 30) for _ in range(number)))
    return number
