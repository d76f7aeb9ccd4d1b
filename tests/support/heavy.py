"""Jobs that exceed their limits. None takes so much that it would harm the machine if it were not stopped."""

import asyncio
import os
import resource
import sys
import time

from taskvisor import SoftTimeLimitExceeded, current_job, job

MB = 1_000_000


def take(megabytes):
    """Allocates and touches memory, 10 MB at a time."""
    kept = []
    for _ in range(megabytes // 10):
        kept.append(bytearray(os.urandom(4096) * (10 * MB // 4096)))
    return kept


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@job("hog")
def hog():
    kept = take(400)
    time.sleep(1000)
    return len(kept)


@job("hog.async")
async def hog_async():
    while not os.path.exists("go"):
        await asyncio.sleep(0.01)
    kept = take(400)
    await asyncio.sleep(1000)
    return len(kept)


@job("hog.class", memory_limit=100 * MB)
def hog_class():
    return hog.function()


@job("neighbour")
async def neighbour():
    while not os.path.exists("go"):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    return "unharmed"


@job("waits")
def waits():
    while not os.path.exists("go"):
        time.sleep(0.01)


@job("waits.more", memory_limit=400 << 20)
def waits_more():
    waits.function()


@job("burns")
def burns(seconds):
    burn(seconds)
    return os.getpid()


@job("prints")
def prints(megabytes):
    for _ in range(megabytes):
        sys.stdout.write("x" * (MB - 1) + "\n")
    time.sleep(1000)


@job("prints.async")
async def prints_async():
    while True:
        print("x" * 9999)
        await asyncio.sleep(0)


@job("look")
def look():
    return os.getpid()


@job("keeps")
def keeps(megabytes):
    keeps.kept = take(megabytes)
    return os.getpid()


@job("means")
def means():
    with open("/proc/self/oom_score_adj") as file:
        return [*resource.getrlimit(resource.RLIMIT_NOFILE), os.nice(0), int(file.read())]


@job("child_score")
async def child_score():
    cat = await asyncio.create_subprocess_exec("cat", "/proc/self/oom_score_adj", stdout=asyncio.subprocess.PIPE)
    score, _ = await cat.communicate()
    return int(score)


@job("soft")
def soft(catches):
    try:
        time.sleep(1000)
    except SoftTimeLimitExceeded:
        if catches:
            return "in time"
        raise


@job("soft.async")
async def soft_async(catches):
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        if catches:
            return "in time"
        raise


@job("keeps.async")
async def keeps_async(megabytes):
    return keeps.function(megabytes)


def begun():
    with open("begun-a", "w"):
        pass


@job("stands")
def stands():
    begun()
    while not os.path.exists("go"):
        time.sleep(0.01)
    return current_job().time_left


@job("stands.async")
async def stands_async():
    begun()
    while not os.path.exists("go"):
        await asyncio.sleep(0.01)
    return current_job().time_left
