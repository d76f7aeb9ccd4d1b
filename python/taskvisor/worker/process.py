"""Small operations on the worker's own process: its descriptors, its streams, its end. Nothing here knows of jobs."""

from __future__ import annotations

import fcntl
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, Optional


def is_template() -> bool:
    """Whether this process is to fork the workers of its pool."""
    return os.environ.get("TASKVISOR_MODE") == "fork" and "TASKVISOR_FORK_FD" in os.environ


def identity(descriptor: int) -> Optional[tuple[int, int]]:
    """The identity of the open file, or None if it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


#: Lowest number above the descriptors of the protocol.
OUT_OF_THE_WAY = 5


def out_of_the_way(descriptor: int) -> int:
    """Moves a descriptor up: if the application closed its stdin, the descriptor may have that number now."""
    if descriptor >= OUT_OF_THE_WAY:
        return descriptor
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, OUT_OF_THE_WAY)
    os.close(descriptor)
    return moved


def close(descriptor: int) -> None:
    """Closes it, if it is open."""
    try:
        os.close(descriptor)
    except OSError:
        pass


def flush_streams() -> None:
    """Flushes stdout and stderr, if the job has left them usable."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass


def print_at_once(text: str) -> None:
    """Writes to stderr, if it still exists, past `sys.stderr`."""
    try:
        os.write(2, text.encode("utf-8", "replace"))
    except OSError:
        pass


def give_up(message: str) -> NoReturn:
    """Prints the reason to stderr, if it still exists, and ends the worker."""
    print_at_once(f"taskvisor.worker: {message}\n")
    sys.exit(1)
