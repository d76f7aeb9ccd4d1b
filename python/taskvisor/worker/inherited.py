"""Warns of objects that every child of a template inherits and cannot use: threads, sockets, random generators.

It only looks and warns. It never closes or changes what it finds.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

#: Longer lists are cut.
_MOST = 20
_HEAD = ("every job of this pool is a fork of this process and inherits what was made while the application was "
         "loaded:")
_TAIL = ("Make them in the job, or anew in each child: os.register_at_fork(before=stop, after_in_parent=start, "
         "after_in_child=start)")


class Inherited:
    """Checks at the first fork, after the fork hooks of the application have run in the template and in the child.

    What an application stops before a fork, or makes anew in the child, is not named.
    """

    def __init__(self) -> None:
        """Must be made before the application is loaded: hooks before a fork run in reverse order, so this one is
        last."""
        self._armed = False
        self._sockets_before = _sockets()
        self._main = comm(os.getpid())
        self.threads: list[str] = []
        self.sockets: dict[int, tuple[int, int]] = {}
        self.generators: list[tuple[str, Any, object]] = []
        os.register_at_fork(before=self._before)

    def arm(self) -> None:
        """Checks at the next fork."""
        self._armed = True
        self.generators = generators()

    def _before(self) -> None:
        if self._armed:
            self._armed = False
            self.threads = threads(self._main)
            known = self._sockets_before.values()
            self.sockets = {number: found for number, found in _sockets().items() if found not in known}

    def warning(self, own: set[int]) -> Optional[str]:
        """The warning, in the child; None if there is none. `own` are sockets of this package."""
        running = {_plain(thread.name) for thread in threading.enumerate()}
        threads = [name for name in self.threads if _plain(name) not in running]
        now = _sockets()
        sockets = [_address(number) for number, found in sorted(self.sockets.items())
                   if number not in own and now.get(number) == found]
        generators = [name for name, generator, state in self.generators if _state(generator) == state]
        lines = [
            _line("threads, which do not run in a job; a lock that one of them holds stays taken there", threads),
            _line("sockets, which all jobs would use at once", sockets),
            _line("random generators, which give the same numbers to every job", generators),
        ]
        found = [line for line in lines if line is not None]
        return "\n".join([_HEAD, *found, _TAIL]) if found else None


def threads(main: str) -> list[str]:
    """The names of the threads beside the main one. `main` is the name that the main one has for the system."""
    known = {thread.native_id: thread for thread in threading.enumerate()}
    names = [thread.name for thread in known.values() if thread is not threading.main_thread()]
    for task in os.listdir("/proc/self/task"):
        name = comm(int(task))
        # A thread without a name has ended since the list was read: a hook may just have joined it. Threads of numeric
        # libraries have the name of the program, and their libraries end them before a fork.
        if int(task) not in known and name not in ("", main):
            names.append(name)
    return names


def _line(what: str, names: list[str]) -> Optional[str]:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"  {what}: {', '.join(names[:_MOST])}{more}" if names else None


def _plain(name: str) -> str:
    """The name without the number that differs between threads of one kind."""
    return re.sub(r"\d+", "", name)


def comm(task: int) -> str:
    """The name that a thread has for the system; empty if there is no such thread."""
    try:
        with open(f"/proc/self/task/{task}/comm", encoding="utf-8", errors="replace") as comm:
            return comm.read().strip()
    except OSError:
        return ""


def _sockets() -> dict[int, tuple[int, int]]:
    """The sockets: from descriptor to identity."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            status = os.fstat(int(name))
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            found[int(name)] = (status.st_dev, status.st_ino)
    return found


def _address(descriptor: int) -> str:
    """The two addresses of a socket, for people."""
    import socket

    with socket.socket(fileno=os.dup(descriptor)) as found:
        kind = {socket.AF_UNIX: "unix", socket.AF_INET: "inet", socket.AF_INET6: "inet6"}.get(found.family)
        name = kind or getattr(found.family, "name", str(found.family))
        own, peer = _end(found.getsockname), _end(found.getpeername)
    ends = f"{own} to {peer}" if own and peer else own or (f"to {peer}" if peer else "without a name")
    return f"{name} {ends} (descriptor {descriptor})"


def _end(ask: Any) -> str:
    try:
        end = ask()
    except OSError:
        return ""
    if isinstance(end, bytes):
        end = end.decode("utf-8", "replace")
    return f"{end[0]}:{end[1]}" if isinstance(end, tuple) and len(end) > 1 else str(end or "")


def generators() -> list[tuple[str, Any, object]]:
    """The pseudo-random generators in modules and their classes, with their states."""
    kinds = tuple(kind for kind in map(_kind, (("random", "Random"), ("numpy.random", "Generator"),
                                               ("numpy.random", "RandomState"))) if kind is not None)
    system = _kind(("random", "SystemRandom"))
    found: dict[int, tuple[str, Any, object]] = {}
    for module_name, module in list(sys.modules.items()):
        # The generators of these modules themselves are seeded again: by Python and by us.
        if not kinds or module_name == "random" or module_name.split(".")[0] == "numpy":
            continue
        for name, value in list(getattr(module, "__dict__", {}).items()):
            held = [(f"{module_name}.{name}", value)]
            # Not isinstance: it would ask a lazy object for its class, which makes it, or fails.
            if issubclass(type(value), type) and value.__module__ == module_name:
                held = [(f"{module_name}.{name}.{inner}", held) for inner, held in list(vars(value).items())]
            for path, generator in held:
                if issubclass(type(generator), kinds) and type(generator) is not system:
                    found.setdefault(id(generator), (path, generator, _state(generator)))
    shared = getattr(sys.modules.get("random"), "_inst", None)
    return [entry for key, entry in found.items() if key != id(shared)]


def _kind(place: tuple[str, str]) -> Optional[type]:
    kind = getattr(sys.modules.get(place[0]), place[1], None)
    return kind if isinstance(kind, type) else None


def _state(generator: Any) -> object:
    if hasattr(generator, "bit_generator"):
        return repr(generator.bit_generator.state)
    return repr(generator.get_state() if hasattr(generator, "get_state") else generator.getstate())
