"""The I/O priority of the process (`ionice`). Python has no function for it, so it is a bare system call."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

#: The numbers of `ioprio_get` and `ioprio_set` on each machine, as `uname` names it.
_CALLS = {"x86_64": (252, 251), "aarch64": (30, 31)}
#: `IOPRIO_WHO_PROCESS` and this thread, which runs the jobs.
_OWN = (1, 0)


def access() -> Optional[tuple[Callable[[], int], Callable[[int], object]]]:
    """What reads it and what sets it; None where this Python cannot make the call."""
    try:
        # Without the package `ctypes` around it, which takes 10 ms to load.
        import _ctypes as c

        own: Any = c
        call, syscall = own.call_function, own.dlsym(own.dlopen(None, 0), "syscall")
        get, put = _CALLS[os.uname().machine]
        if call(syscall, (get, *_OWN)) < 0:
            return None
    except (ImportError, AttributeError, KeyError, OSError):
        return None
    asked = (get, *_OWN)

    def write(before: int) -> None:
        if call(syscall, (put, *_OWN, before)) < 0:
            raise PermissionError(f"the I/O priority cannot be set to {before}")
    return lambda: int(call(syscall, asked)), write
