"""An application whose template cannot fork."""

import errno

from sample import *  # noqa: F401,F403

from taskvisor.worker import forking


def _refuse(*_arguments):
    forking.ctypes.set_errno(errno.EAGAIN)
    return -1


class _Library:
    """The C library, except for its system calls."""

    def __init__(self, library):
        self.prctl, self.syscall = library.prctl, _refuse
        self.malloc_trim = getattr(library, "malloc_trim", None)


forking._libc = _Library(forking._libc)
