"""Calls the function of a job.

On a stack, a frame of this file marks where the worker ends and code of the job begins. Nothing else may be in it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable


def call(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Calls the function."""
    return function(*args, **kwargs)


async def call_async(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Calls the function and awaits the result."""
    return await function(*args, **kwargs)
