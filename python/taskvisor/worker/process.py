"""Small operations on the worker's own process: its descriptors, its streams, its end. Nothing here knows of jobs."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, Optional


def identity(descriptor: int) -> Optional[tuple[int, int]]:
    """The identity of the open file, or None if it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


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
