"""Shows the supervisor, when somebody asks what a job does, where the threads of this process are."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal

from . import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

#: The supervisor looks for a file in memory of this name.
_NAME = "taskvisor-stacks"


class _Offer:
    """The file, and its identity: the application may have closed it, and opened another by the number."""

    descriptor = -1
    identity: Optional[tuple[int, int]] = None


_offered = _Offer()


def offer() -> None:
    """At SIGURG, which processes ignore by default, writes the stacks of all threads into a file in memory.

    It is written from within the handler of the signal, so also while the interpreter is blocked. No Python code runs,
    and a system call that was interrupted goes on. A handler of the application's own is left alone.
    """
    if not hasattr(os, "memfd_create") or not _is_ours():
        return
    try:
        descriptor = process.out_of_the_way(os.memfd_create(_NAME))
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
        faulthandler.register(signal.SIGURG, file=descriptor)
    except OSError:
        # Without it a picture has everything else.
        return
    _offered.descriptor, _offered.identity = descriptor, process.identity(descriptor)


def offer_anew() -> None:
    """In a fork: what it answers late must not be taken for the answer of another fork."""
    before, was = _offered.descriptor, _offered.identity
    if was is not None:
        _offered.identity = None
        offer()
        _close(before, was)


def withdraw_if_replaced() -> None:
    """After code of the application has run: if it handles the signal itself now, the supervisor must not send it."""
    if _offered.identity is not None and not _is_ours():
        _close(_offered.descriptor, _offered.identity)
        _offered.identity = None


def _is_ours() -> bool:
    # The handler of faulthandler is not one that Python knows.
    return signal.getsignal(signal.SIGURG) == signal.SIG_DFL


def _close(descriptor: int, identity: tuple[int, int]) -> None:
    if process.identity(descriptor) == identity:
        os.close(descriptor)
