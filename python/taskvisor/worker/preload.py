"""Imports in a template the modules that its jobs have needed, so that later forks have them.

A module is first imported by a trial, a child of the template that takes no part in anything: what starts threads or
opens sockets at its import, or changes the process, stays with the jobs that need it. When the file of a module changes
on disk the template with the old code ends, and another follows. What a module computes at its import (the time, a name,
what is in another file) is then the same for all jobs, and nothing can see that: so this is asked for, never the default.
"""

from __future__ import annotations

import atexit
import importlib
import itertools
import json
import logging
import os
import signal
import sys
import time
import warnings

from . import forking, surroundings
from .inherited import comm, generators, threads
from .process import out_of_the_way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Callable, NoReturn, Optional

#: Limit of the modules that are tried: names may be made up.
_MOST = 200
#: Limit of the characters of a name.
_LONGEST = 200
#: Limit of the bytes of a verdict.
_VERDICT = 1 << 20
#: Limit of the seconds of a trial. The template forks nothing while it imports the same.
_PATIENCE = 10.0
#: Code of packages: who replaces it starts the workers again.
_INSTALLED = (os.path.dirname(os.__file__) + os.sep, os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


class _Trial:
    """The child that imports a module first."""

    def __init__(self, name: str, pid: int, verdict: int) -> None:
        self.name = name
        self.pid = pid
        #: The end of the pipe on which it says what it has found.
        self.verdict = verdict
        self.said = b""
        self.until: float = time.monotonic() + _PATIENCE


class Preload:
    """What a template and its forks know of it: the forks name modules, the template imports them between jobs."""

    def __init__(self, changed: Callable[[], Optional[str]]) -> None:
        """`changed` says what of the application an import has changed, in words; None if nothing."""
        self._changed = changed
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._reader, self._writer = out_of_the_way(reader), out_of_the_way(writer)
        self._unread = b""
        self._waiting: list[str] = []
        self._tried: set[str] = set()
        self._trial: Optional[_Trial] = None
        self._files: dict[str, list[int]] = {}
        #: What was imported, in order.
        self.modules: list[str] = []

    # -- in a fork

    def name(self, function: str, loaded: int) -> None:
        """Names the module of a function that has run well to the template, if the job has loaded it. `loaded` is the
        number of modules before the job."""
        fresh = set(itertools.islice(reversed(list(sys.modules)), max(0, len(sys.modules) - loaded)))
        module = function
        while module and module not in fresh:
            module = module.rpartition(".")[0]
        if module and len(module) <= _LONGEST and "\n" not in module:
            try:
                os.write(self._writer, module.encode() + b"\n")
            except OSError:
                # The pipe is full: a later job names it.
                pass

    def is_outdated(self) -> bool:
        """Whether a file of what was imported has changed since."""
        return any(_signature(path) != found for path, found in self._files.items())

    # -- in the template

    def descriptors(self) -> list[int]:
        """What to poll."""
        return [self._reader] if self._trial is None else [self._reader, self._trial.verdict]

    def patience(self) -> Optional[float]:
        """Milliseconds until `turn` is due although nothing can be read; None if it is not."""
        return None if self._trial is None else max(1.0, (self._trial.until - time.monotonic()) * 1000)

    def turn(self, shut: Iterable[int]) -> Optional[str]:
        """Reads what has come, ends a trial, imports, begins the next trial. Returns what there is to warn of.

        `shut` are descriptors that a trial must not have.
        """
        self._read_names()
        said = self._hear() if self._trial is not None else None
        if self._trial is None and self._waiting:
            self._begin(self._waiting.pop(0), shut)
        return said

    def _read_names(self) -> None:
        try:
            self._unread += os.read(self._reader, 4096)
        except OSError:
            return
        *names, self._unread = self._unread.split(b"\n")
        self._unread = self._unread[-_LONGEST:]
        for name in (name.decode("utf-8", "replace") for name in names):
            if name not in self._tried and name not in sys.modules and len(self._tried) < _MOST:
                self._tried.add(name)
                self._waiting.append(name)

    def _begin(self, name: str, shut: Iterable[int]) -> None:
        verdict, answer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        parent = os.getpid()
        try:
            pid = forking.fork_child()
        except OSError:
            # A passing want of room: the next job that needs it names it again.
            self._tried.discard(name)
            os.close(verdict)
            os.close(answer)
            return
        if pid == 0:
            _try(name, parent, answer, {*shut, self._reader, self._writer, verdict}, self._changed)
        os.close(answer)
        self._trial = _Trial(name, pid, verdict)

    def _hear(self) -> Optional[str]:
        """Reads the verdict. At its end it is followed."""
        trial = self._trial
        assert trial is not None
        late = time.monotonic() >= trial.until
        try:
            more = b"" if late else os.read(trial.verdict, 65536)
        except BlockingIOError:
            return None
        trial.said += more
        if more and len(trial.said) <= _VERDICT:
            return None
        self._trial = None
        _end(trial)
        why = f"its import takes longer than {_PATIENCE:.0f} s" if late else self._follow(trial)
        return why and (f"{trial.name} is not imported for all jobs, but by each that needs it: {why}. python3 -m "
                        f"taskvisor.rq -m {trial.name} imports it nevertheless")

    def _follow(self, trial: _Trial) -> Optional[str]:
        """Imports the module if the trial was good; else says why not."""
        try:
            verdict = json.loads(trial.said)
        except ValueError:
            return "a trial of its import ended the process"
        if verdict["why"] is not None:
            return str(verdict["why"])
        loaded = len(sys.modules)
        try:
            importlib.import_module(trial.name)
        except BaseException as error:
            return f"its import fails here: {type(error).__name__}: {error}"
        finally:
            # Of the trial, where they differ: a file that changes in between is noticed so.
            self._files.update({**_files(list(sys.modules)[loaded:]), **verdict["files"]})
        self.modules.append(trial.name)
        return None


def _end(trial: _Trial) -> None:
    """Ends a trial with what it has started."""
    os.close(trial.verdict)
    for kill, pid in ((os.killpg, trial.pid), (os.kill, trial.pid)):
        try:
            # The group is there once the trial has made it.
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    try:
        os.waitpid(trial.pid, 0)
    except ChildProcessError:
        # The application ignores SIGCHLD: the kernel has reaped it.
        pass


def _try(name: str, parent: int, answer: int, shut: set[int], changed: Callable[[], Optional[str]]) -> NoReturn:
    """Imports the module in this child, writes what that has done, and ends."""
    try:
        forking.die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        os.setpgid(0, 0)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for descriptor in (0, 1, 2, *shut):
            os.dup2(nothing, descriptor, descriptor <= 2)
        process, shared, loaded = surroundings.Surroundings(), _shared(), len(sys.modules)
        before = _descriptors()
        why: Optional[str] = None
        try:
            importlib.import_module(name)
        except BaseException as error:
            why = f"its import fails here: {type(error).__name__}: {error}"
        fresh = list(sys.modules)[loaded:]
        why = why or _effects(before, process) or _leaves(shared, fresh) or changed()
        os.set_blocking(answer, True)
        said = json.dumps({"why": why and why[:1000], "files": _files(fresh)}).encode()
        while said:
            said = said[os.write(answer, said):]
    finally:
        os._exit(0)


def _effects(before: set[str], process: surroundings.Surroundings) -> Optional[str]:
    """What an import has done beside defining things, in words."""
    started = threads(comm(os.getpid()))
    if started:
        return f"it starts threads ({', '.join(started[:5])})"
    opened = sorted(_descriptors() - before)
    if opened:
        return f"it opens {', '.join(opened[:5])}"
    if _has_children():
        return "it starts programs"
    names = process.restore().names
    return f"it changes {', '.join(names[:5])}" if names else None


def _shared() -> dict[str, object]:
    """What modules change of others, in words."""
    root = logging.getLogger()
    return {
        "sys.path": list(sys.path),
        "sys.meta_path": list(sys.meta_path),
        "the root logger": (root.level, list(root.handlers), list(root.filters)),
        "warnings.filters": list(warnings.filters),
        "what is called at the exit": atexit._ncallbacks(),
    }


def _leaves(before: dict[str, object], fresh: list[str]) -> Optional[str]:
    """What an import has left for all later jobs that each would otherwise make itself, in words."""
    now = _shared()
    changed = [name for name, value in before.items() if now[name] != value]
    if changed:
        return f"it changes {', '.join(changed)}"
    made = [path for path, _, _ in generators() if any(path.startswith(f"{name}.") for name in fresh)]
    if made:
        return f"it makes random generators, which would give the same numbers to every job ({', '.join(made[:5])})"
    unseen = [path for path, signature in _files(fresh).items() if not signature]
    return f"changes of its file would not be seen ({unseen[0]})" if unseen else None


def _descriptors() -> set[str]:
    """What this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{os.readlink(f'/proc/self/fd/{name}')} (descriptor {name})")
        except OSError:
            # That of the listing itself.
            pass
    return found


def _has_children() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG) is not None
    except ChildProcessError:
        return False


def _files(fresh: list[str]) -> dict[str, list[int]]:
    """The files of the application's own modules among the fresh ones, with their signatures."""
    found: dict[str, list[int]] = {}
    for name in fresh:
        path: Any = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(path, str) and not any(part in path for part in _INSTALLED):
            found[path] = _signature(path)
    return found


def _signature(path: str) -> list[int]:
    """What differs once a file was written or replaced."""
    try:
        status = os.stat(path)
    except OSError:
        return []
    return [status.st_mtime_ns, status.st_size, status.st_ino]
