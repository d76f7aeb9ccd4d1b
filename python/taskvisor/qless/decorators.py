"""`retry`, the decorator of qless-py for the methods of jobs."""

from __future__ import annotations

import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def retry(*excepts: type[BaseException]) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A job whose method raises one of these is tried again at once, while tries remain.

    >>> class Fetch:
    ...     @staticmethod
    ...     @retry(ConnectionError)
    ...     def process(job): ...
    """

    def decorate(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
        from ..client import calling
        from ..client.arguments import is_async

        @functools.wraps(method)
        def plain(job: Any) -> Any:
            try:
                return calling.call(method, (job,), {})
            except excepts:
                job.retry()

        @functools.wraps(method)
        async def coroutine(job: Any) -> Any:
            try:
                return await calling.call_async(method, (job,), {})
            except excepts:
                job.retry()

        return coroutine if is_async(method) else plain

    return decorate
