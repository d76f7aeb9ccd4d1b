"""Threads of their own for what blocks: those of the event loop are left to `getaddrinfo`, `to_thread` and the application.

Imported only by coroutines.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from . import asking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

#: Most calls at a time. The supervisor answers a put in milliseconds; while it is away more would only wait as well.
_MOST = 32


class _Pool:
    """The threads of this process."""

    #: The process: one that is forked has none of the threads.
    pid = 0
    threads: ThreadPoolExecutor


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the function in a thread, with the context of the caller.

    >>> import asyncio
    >>> asyncio.run(in_thread(max, 1, 2))
    2
    """
    if _Pool.pid != os.getpid():
        _Pool.threads, _Pool.pid = ThreadPoolExecutor(_MOST, "taskvisor"), os.getpid()
    return await asking.event_loop().run_in_executor(_Pool.threads, copy_context().run, function, *arguments)
