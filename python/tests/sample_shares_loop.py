"""Jobs that take from their neighbours what all jobs of one event loop share."""

import _thread
import asyncio
import faulthandler
import os
import signal
import sys
import threading

from taskvisor import job, progress

if "TEST_UVLOOP" in os.environ:
    import uvloop
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


@job("waits")
async def waits(how="plainly"):
    progress(message="waiting")
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        if how == "hides it":
            raise ValueError("the connection is gone") from None
        if how != "goes on":
            raise
    if how == "goes on":
        # By a timeout of its own, which came of a cancellation too: by its own.
        await asyncio.wait_for(asyncio.sleep(30), 0.01)


@job("awaits_its_task")
async def awaits_its_task(how):
    task = asyncio.ensure_future(asyncio.sleep(30))
    progress(message="waiting")
    try:
        await (asyncio.gather(task, asyncio.sleep(30)) if how == "gathers" else task)
    except asyncio.CancelledError as error:
        if how == "converts":
            raise ValueError("the connection is gone") from error
        raise


@job("cancels")
async def cancels(whom="all"):
    for task in asyncio.all_tasks():
        if whom == "all" or task is not asyncio.current_task():
            task.cancel()
    await asyncio.sleep(0)
    return "cleaned up"


@job("cancels_itself")
async def cancels_itself(how):
    if how == "raises":
        raise asyncio.CancelledError
    if how == "awaits":
        task = asyncio.ensure_future(asyncio.sleep(30))
        task.cancel()
        await task
    if how == "in a thread":
        threading.Thread(target=asyncio.get_running_loop().call_soon_threadsafe,
                         args=(asyncio.current_task().cancel,)).start()
    else:
        asyncio.current_task().cancel()
    await asyncio.sleep(30)


@job("cancels_from_a_thread")
async def cancels_from_a_thread(how="known"):
    loop, tasks, own = asyncio.get_running_loop(), asyncio.all_tasks(), asyncio.current_task()
    done = threading.Event()

    def cancel():
        for task in tasks - {own}:
            loop.call_soon_threadsafe(task.cancel)
        done.set()
    if how == "known":
        threading.Thread(target=cancel).start()
    else:
        _thread.start_new_thread(cancel, ())
    done.wait()
    await asyncio.sleep(0.1)


@job("spoils")
async def spoils(name):
    method = getattr(asyncio.get_running_loop(), name, None)
    if method is None:
        raise RuntimeError(f"a job must not call {name}(): this Python does not have it")
    done = method()
    if done is not None:
        await done


@job("stops_from_a_thread")
async def stops_from_a_thread():
    thread = threading.Thread(target=asyncio.get_running_loop().stop)
    thread.start()
    thread.join()
    await asyncio.sleep(0.05)
    return "goes on"


@job("interrupts")
async def interrupts():
    async def interrupt():
        raise KeyboardInterrupt
    task = asyncio.ensure_future(interrupt())
    try:
        await task
    except KeyboardInterrupt:
        return "survived"


@job("arms")
async def arms():
    faulthandler.dump_traceback_later(3, exit=True)


@job("waits_long_enough")
async def waits_long_enough():
    await asyncio.sleep(3.5)
    return "whole"


@job("in_executor")
async def in_executor():
    return await asyncio.get_running_loop().run_in_executor(None, os.getpid) == os.getpid()


@job("handles_term")
async def handles_term(how):
    told = asyncio.Event()
    if how == "loop":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return "ignores it"
    progress(message="waiting")
    try:
        await asyncio.sleep(30)
    finally:
        await asyncio.wait_for(told.wait(), 10)
        print("its handler was called", file=sys.stderr)
