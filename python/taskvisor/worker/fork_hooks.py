"""Runs the functions of `os.register_at_fork`, without those that are there for other threads only.

In a process with one thread no other thread can hold a lock, so no lock has to be taken before a fork or renewed after
it. Python does that at each fork, `threading` most of it: it costs a child 200 copied pages and 0.5 ms of CPU time.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    Hook = Callable[[], object]

#: The newest Python whose own work at a fork is known to be for other threads only.
_NEWEST = (3, 13)
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
#: The modules of Python whose functions only renew locks, and what is known of other threads.
_OF_THREADS = ("threading", "logging")


class _ForkHooks:
    """The functions of the interpreter, also those that are registered later. For a process with one thread."""

    def __init__(self, before: list[Hook], in_parent: list[Hook], in_child: list[Hook]) -> None:
        self._before = _Needed(before)
        self._in_parent = _Needed(in_parent)
        self._in_child = _Needed(in_child)
        self._note_thread_id: Optional[Hook] = getattr(threading.main_thread(), "_set_native_id", None)

    def before(self) -> None:
        """Calls those for the time before a fork, the last one first."""
        # The child copies what it looks at, so the others are looked at here.
        self._in_parent.look()
        self._in_child.look()
        _call(reversed(self._before.look()))

    def in_parent(self) -> None:
        """Calls those for the process that has forked, or failed to."""
        _call(self._in_parent.hooks)

    def in_child(self) -> None:
        """Calls those for the new process."""
        # All that `threading` would have to do.
        if self._note_thread_id is not None:
            self._note_thread_id()
        _call(self._in_child.hooks)


class _Needed:
    """Those of a growing list that one thread needs too."""

    def __init__(self, registered: list[Hook]) -> None:
        self.hooks: list[Hook] = []
        self._registered = registered
        self._seen = 0

    def look(self) -> list[Hook]:
        """Looks at what has come since the last time."""
        new = self._registered[self._seen:]
        self._seen += len(new)
        self.hooks += [hook for hook in new if not _is_for_threads(hook)]
        return self.hooks


def find() -> Optional[tuple[Hook, Hook, Hook]]:
    """What to call before a fork, after it, and in the child. None where Python itself has to do something."""
    writes_perf_maps: Any = getattr(sys, "is_stack_trampoline_active", bool)
    is_known = sys.implementation.name == "cpython" and sys.version_info[:2] <= _NEWEST and "t" not in sys.abiflags
    if not is_known or writes_perf_maps():
        return None
    # Python keeps them in three lists, which only these objects lead to.
    marks = _Mark(), _Mark(), _Mark()
    os.register_at_fork(before=marks[0], after_in_parent=marks[1], after_in_child=marks[2])
    lists = [held for mark in marks for held in gc.get_referrers(mark) if type(held) is list]
    if len(lists) != len(marks):
        return None
    hooks = _ForkHooks(*lists)
    return hooks.before, hooks.in_parent, hooks.in_child


class _Mark:
    def __call__(self) -> None:
        """Does nothing."""


def _is_for_threads(hook: Any) -> bool:
    is_of_lock = isinstance(getattr(hook, "__self__", None), _LOCKS)
    return is_of_lock or isinstance(hook, _Mark) or getattr(hook, "__module__", None) in _OF_THREADS


def _call(hooks: Any) -> None:
    for hook in hooks:
        try:
            hook()
        except BaseException:
            # As Python does.
            print(f"Exception ignored in: {hook!r}", file=sys.stderr)
            traceback.print_exc()
