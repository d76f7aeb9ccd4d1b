"""Runs a coroutine job in an event loop of its own, in a worker with one job at a time."""

from __future__ import annotations

import asyncio
from typing import Any, Callable

from ..client import calling
from .termination import Termination


def run(termination: Termination, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Runs the coroutine to its end. SIGTERM cancels its task."""
    return asyncio.run(_in_loop(termination, function, args, kwargs))


async def _in_loop(termination: Termination, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    # A signal must end the loop's sleep, and cancel the task instead of raising inside the loop.
    loop.add_reader(termination.wake, termination.drain)
    # The loop is closed if the signal comes in the job's last moment.
    termination.interrupt_by(lambda: loop.is_closed() or loop.call_soon_threadsafe(task.cancel))
    return await calling.call_async(function, args, kwargs)
