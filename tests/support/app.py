"""An application for tests: jobs that report what they see, wait for a file, and end in every possible way."""

import asyncio
import collections
import ctypes
import itertools
import os
import signal
import threading
import time

from taskvisor import Advance, Fail, Retry, Snooze, current_job, job, progress, put

count = 0
together = 0
barrier = threading.Barrier(10)


def note(kind, name, text=""):
    """Writes a file for the test atomically."""
    with open(f".{kind}-{name}", "w") as file:
        file.write(text)
    os.rename(f".{kind}-{name}", f"{kind}-{name}")


@job("look")
def look():
    """Returns the process that runs it, and the state it finds in memory."""
    global count
    count += 1
    print("on stdout")
    os.write(2, b"on stderr\n")
    pids = {"pid": os.getpid(), "ppid": os.getppid(), "sid": os.getsid(0)}
    return {"count": count, "grace": current_job().grace, **pids}


@job("echo")
def echo(*words, **named):
    data = current_job().data
    if isinstance(data, bytes):
        return {"bytes": list(data)}
    return {"data": data}


@job("stages")
def stages(first):
    """Advances to the queue `encode` once the job that it puts itself is complete."""
    me = current_job()
    if me.queue == "encode":
        return [me.id, me.attempt, me.data]
    helper = put("default", "stages.helper", id="helper", exists="skip")
    again = put("default", "stages.helper", id="helper", exists="skip")
    return Advance("encode", [helper, again], depends=[helper])


@job("stages.helper")
def helper():
    pass


@job("raises")
def raises(what):
    if what == "value":
        raise ValueError("no such value")
    if what == "retry" and current_job().attempt == 1:
        raise Retry(after=0.1, reason="not yet")
    if what == "snooze" and not os.path.exists("snoozed"):
        open("snoozed", "w").close()
        raise Snooze(after=0.1)
    if what == "fail":
        raise Fail("never")
    return current_job().attempt


@job("typos")
def typos():
    """Puts to a queue and of a class that nobody has, twice."""
    return [put(*place) for place in [("mial", "look"), ("default", "ecoh")] * 2]


@job("puts")
def puts():
    progress(0.5, "half way")
    return look.put()


@job("leaks")
def leaks():
    leaks.kept = b"x" * (10 << 20)


@job("hold")
def hold(name):
    """Runs until the file `go` exists; records the exception that interrupts it."""
    try:
        note("begun", name, str(os.getpid()))
        while not os.path.exists("go"):
            time.sleep(0.01)
    except BaseException as error:
        note("hit", name, f"{type(error).__name__}: {error}")
        raise
    return {"pid": os.getpid()}


@job("hold.async")
async def hold_async(name):
    try:
        note("begun", name, str(os.getpid()))
        while not os.path.exists("go"):
            await asyncio.sleep(0.02)
    except BaseException as error:
        note("hit", name, f"{type(error).__name__}: {error}")
        raise
    return {"pid": os.getpid()}


@job("slow")
def slow(name):
    """Completes although it is interrupted, after a moment."""
    note("begun", name)
    try:
        while True:
            time.sleep(0.01)
    finally:
        note("hit", name)


@job("leaves")
def leaves():
    os._exit(3)


@job("segfault")
def segfault():
    ctypes.string_at(0)


@job("terms")
async def terms():
    """Tells its own worker to end."""
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(1000)


def deaf():
    """In C code, with all signals blocked and the interpreter's lock held."""
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    ctypes.PyDLL(None).sleep(1000)


@job("deaf")
def deaf_job(name):
    note("begun", name)
    deaf()


@job("blocks.loop")
async def blocks_loop(name):
    note("begun", name)
    time.sleep(1000)


@job("blocks.later")
async def blocks_later(name, number):
    """Blocks the loop once so many jobs `a…` run beside it."""
    while sum(file.startswith("begun-a") for file in os.listdir(".")) < number:
        await asyncio.sleep(0.02)
    blocks_for_long(name)


def blocks_for_long(name):
    note("begun", name)
    time.sleep(1000)


@job("holds.later")
async def holds_later(name, number, seconds):
    """The same, for so long of CPU time, in C code that keeps the interpreter's lock."""
    while sum(file.startswith("begun-a") for file in os.listdir(".")) < number:
        await asyncio.sleep(0.02)
    note("begun", name)
    holds_for_long(seconds)


def holds_for_long(seconds):
    end = time.thread_time() + seconds
    # All of it is C code, as a regular expression is that backtracks.
    collections.deque(itertools.takewhile(end.__gt__, iter(time.thread_time, None)), maxlen=0)


@job("together")
async def all_together(number):
    """Ends once `number` jobs have begun."""
    global together
    together += 1
    while together < number:
        await asyncio.sleep(0.01)
    return os.getpid()


@job("threads")
def in_threads():
    """Ends once ten jobs have begun."""
    barrier.wait(60)
    return {"pid": os.getpid(), "main": threading.current_thread() is threading.main_thread()}


@job("stubborn")
async def stubborn(name):
    note("begun", name)
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            note("hit", name)


@job("bomb")
async def bomb():
    """Kills its process: beside other jobs once the file `boom` exists, alone at once."""
    note("begun", "bomb")
    while not os.path.exists("boom"):
        await asyncio.sleep(0.02)
    os._exit(7)


@job("chatters")
async def chatters(name):
    for line in range(20):
        print(f"{name} {line}")
        await asyncio.sleep(0)


@job("queue")
def queue():
    with open("order", "a") as file:
        file.write(current_job().queue)


@job("surroundings")
def surroundings():
    found = os.listdir(".")
    file = os.open("made", os.O_CREAT | os.O_WRONLY, 0o777)
    mode = os.fstat(file).st_mode & 0o777
    return {"ids": [*os.getresuid(), *os.getresgid(), *os.getgroups()], "env": dict(os.environ), "cwd": os.getcwd(),
            "mode": mode, "found": found}


@job("litters")
def litters():
    if not os.fork():
        os.setsid()
        time.sleep(1000)
        os._exit(0)


@job("many.One")
def many_one():
    return os.environ["TASKVISOR_POOL"]


@job("many.Two")
def many_two():
    return os.environ["TASKVISOR_POOL"]


@job("queue.async")
async def queue_async():
    queue.function()


@job("where")
def where():
    return [os.environ[f"TASKVISOR_{name}"] for name in ("POOL", "MODE")]


@job("limited", time_limit=0.3, retries=1, retry_delay=0.01)
def limited():
    with open("limits", "a") as file:
        file.write(f"{current_job().time_limit} ")
    time.sleep(1000)


@job("version")
def version():
    return os.environ["VERSION"]


beats = threading.Event()


@job("changes")
def changes():
    """Changes the state of the process, and leaves a thread."""
    os.umask(0o777)
    os.chdir("/")
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    threading.Thread(target=beats.wait, name="beat", daemon=True).start()


@job("changes_more")
def changes_more():
    """Leaves what a program or a profiler leaves that was killed in its work."""
    os.set_blocking(1, False)
    signal.setitimer(signal.ITIMER_PROF, 0.05)


@job("prints")
def prints(size):
    """Prints more than a pipe holds, and computes."""
    print("x" * size)
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass


@job("process")
def process():
    """Returns the state that `changes` changes."""
    umask = os.umask(0)
    os.umask(umask)
    return [umask, os.getcwd(), signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL]


@job("spins")
def spins():
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    assert os.system("i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done") == 0
    return time.process_time() - until + 0.2
