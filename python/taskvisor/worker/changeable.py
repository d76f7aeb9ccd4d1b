"""What a job can change of its process, as a table: how each field is read, put back and named.

Each field is read after each job, so reading takes at most a system call: no file of `/proc` is opened then.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
import threading
import warnings
from functools import partial

from . import dump_later, io_priority, limits, watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

#: The C modules, without the enums and checks of those in Python.
_signal: Any = sys.modules["_signal"]
#: What Python calls with an exception that nobody has caught.
_HOOKS = ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook"))


class Field:
    """A part of the process's state."""

    __slots__ = ("_differing", "_name", "read", "write")

    def __init__(self, name: str, read: Callable[[], Any], write: Callable[[Any], object],
                 differing: Optional[Callable[[Any, Any], str]] = None) -> None:
        self._name = name
        self._differing = differing
        #: Gives its value.
        self.read: Callable[[], Any] = read
        #: Sets it. Fails where the process may not do that.
        self.write: Callable[[Any], object] = write

    def named(self, now: Any, before: Any) -> str:
        """It in words, where it has changed."""
        return self._name if self._differing is None else f"{self._name} {self._differing(now, before)}".strip()


def fields() -> list[Field]:
    """All of them. Those that need the rights of the user come after it."""
    locale: Any = importlib.import_module("_locale")
    io = io_priority.access()
    return [
        Field("the user", os.getresuid, lambda before: os.setresuid(*before)),
        Field("the group", os.getresgid, lambda before: os.setresgid(*before)),
        Field("the supplementary groups", os.getgroups, os.setgroups),
        Field("a timer (ITIMER_VIRTUAL)", *_timer(_signal.ITIMER_VIRTUAL)),
        Field("a timer (ITIMER_PROF)", *_timer(_signal.ITIMER_PROF)),
        Field("the mask of signals", lambda: _signal.pthread_sigmask(_signal.SIG_BLOCK, ()),
              lambda before: _signal.pthread_sigmask(_signal.SIG_SETMASK, before)),
        Field("the limit", limits.read, limits.put_back, limits.differing),
        Field("the nice value", lambda: os.getpriority(os.PRIO_PROCESS, 0),
              lambda before: os.setpriority(os.PRIO_PROCESS, 0, before)),
        Field("the processors", lambda: os.sched_getaffinity(0), lambda before: os.sched_setaffinity(0, before)),
        Field("oom_score_adj", *_oom_score()),
        Field("the scheduling policy", lambda: os.sched_getscheduler(0),
              lambda before: os.sched_setscheduler(0, before, os.sched_param(0))),
        Field("logging.disable", lambda: logging.root.manager.disable, logging.disable),
        Field("socket.setdefaulttimeout", *_socket_timeout()),
        Field("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
        _several(_interpreter()),
        Field("the locale", lambda: locale.setlocale(locale.LC_ALL, None),
              lambda before: locale.setlocale(locale.LC_ALL, before)),
        # Set after the nice value: some kernels derive it from that.
        *([] if io is None else [Field("the I/O priority", *io)]),
    ]


def _interpreter() -> list[tuple[str, Any, Any]]:
    """Settings of the interpreter that are its whole process's: how each is named, read and set."""
    known: list[tuple[str, Any, Any]] = [
        ("faulthandler.dump_traceback_later", dump_later.armed, dump_later.arm),
        ("gc.disable", gc.isenabled, lambda before: gc.enable() if before else gc.disable()),
        ("gc.set_threshold", gc.get_threshold, lambda before: gc.set_threshold(*before)),
        ("gc.set_debug", gc.get_debug, gc.set_debug),
        ("sys.settrace", sys.gettrace, sys.settrace),
        ("sys.setprofile", sys.getprofile, sys.setprofile),
        ("threading.settrace", partial(getattr, threading, "_trace_hook", None), threading.settrace),
        ("threading.setprofile", partial(getattr, threading, "_profile_hook", None), threading.setprofile),
        *(_hook(module, name) for module, name in _HOOKS),
        ("warnings.filters", *_warning_filters()),
        ("threading.stack_size", threading.stack_size, threading.stack_size),
        ("sys.setswitchinterval", sys.getswitchinterval, sys.setswitchinterval),
    ]
    if not watched.of_freeze.any:  # Nobody can tell the objects that an application freezes from those of a job.
        known.append(("gc.freeze", lambda: watched.of_freeze.any, _unfreeze))
    if hasattr(sys, "get_int_max_str_digits"):  # Not in older releases of Python 3.7 to 3.10.
        known.append(("sys.set_int_max_str_digits", sys.get_int_max_str_digits, sys.set_int_max_str_digits))
    return known


def _unfreeze(_never: bool) -> None:
    gc.unfreeze()
    watched.of_freeze.forget()


def _hook(module: Any, name: str) -> tuple[str, Any, Any]:
    return f"{module.__name__}.{name}", partial(getattr, module, name, None), partial(setattr, module, name)


def _warning_filters() -> tuple[Callable[[], Any], Callable[[Any], object]]:
    """What Python does with each warning. The list stays the same one: the C module may keep it."""
    filters: Any = warnings.filters

    def write(before: Any) -> None:
        setattr(warnings, "filters", filters)
        # It empties the list, and Python asks the filters again for each warning that it has shown before.
        warnings.resetwarnings()
        filters[:] = before
    return lambda: tuple(warnings.filters), write


def _several(parts: list[tuple[str, Any, Any]]) -> Field:
    """One field of many, as most jobs change none: they are read in one go."""
    names, reads, writes = zip(*parts)

    def write(before: list[Any]) -> None:
        for now, wanted, part in zip(read(), before, writes):
            if now != wanted:
                part(wanted)

    def read() -> list[Any]:
        return [part() for part in reads]

    def differing(now: list[Any], before: list[Any]) -> str:
        return ", ".join(name for name, left, right in zip(names, now, before) if left != right)
    return Field("", read, write, differing)


def no_alarm() -> bool:
    """Takes the timer of SIGALRM away. True if one was set."""
    value, interval = _signal.setitimer(_signal.ITIMER_REAL, 0)
    return bool(value or interval)


def stop_passing_timers() -> None:
    """Takes away timers that come once: they would come in some job. Those of profilers stay."""
    for which in (_signal.ITIMER_VIRTUAL, _signal.ITIMER_PROF):
        if not _signal.getitimer(which)[1]:
            _signal.setitimer(which, 0)


def _timer(which: int) -> tuple[Callable[[], float], Callable[[float], object]]:
    """The interval of a timer, as a profiler of the application has one; -1 for a timer that comes once."""
    getitimer = _signal.getitimer

    def read() -> float:
        value, interval = getitimer(which)
        return float(interval) or (-1.0 if value else 0.0)
    return read, lambda before: _signal.setitimer(which, before, before)


def _oom_score() -> tuple[Callable[[], bytes], Callable[[bytes], object]]:
    """How soon the kernel kills this process for want of memory. The file stays open: to open it costs more than to read it."""
    path, descriptor, known, pread = "/proc/self/oom_score_adj", -1, b"", os.pread

    def read() -> bytes:
        nonlocal descriptor, known
        try:
            score = pread(descriptor, 16, 0)
            if score == known or score.strip().lstrip(b"-").isdigit():
                known = score
                return score
        except OSError:
            pass
        # A job has closed it, and its number may be that of another file by now.
        try:
            descriptor = os.open(path, os.O_RDONLY)
            return pread(descriptor, 16, 0)
        except OSError:
            return b""

    def write(before: bytes) -> None:
        with open(path, "wb", buffering=0) as file:
            file.write(before)
    return read, write


def _socket_timeout() -> tuple[Callable[[], Optional[float]], Callable[[Optional[float]], object]]:
    """Without the module nothing is set."""
    modules = sys.modules

    def read() -> Optional[float]:
        module: Any = modules.get("_socket")
        timeout: Optional[float] = None if module is None else module.getdefaulttimeout()
        return timeout
    return read, lambda before: modules["_socket"].setdefaulttimeout(before)
