"""Shows the supervisor, when somebody asks what a job does, where the threads of this process are."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal

#: The supervisor looks for a file in memory of this name.
_NAME = "taskvisor-stacks"
#: Lowest number above the descriptors of the protocol.
_OUT_OF_THE_WAY = 5


def offer() -> None:
    """At SIGURG, which processes ignore by default, writes the stacks of all threads into a file in memory.

    It is written from within the handler of the signal, so also while the interpreter is blocked. No Python code runs,
    and a system call that was interrupted goes on. A handler of the application's own is left alone.
    """
    if not hasattr(os, "memfd_create") or signal.getsignal(signal.SIGURG) != signal.SIG_DFL:
        return
    try:
        made = os.memfd_create(_NAME)
        try:
            descriptor = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)
        finally:
            os.close(made)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
        faulthandler.register(signal.SIGURG, file=descriptor)
    except OSError:
        # Without it a picture has everything else.
        pass
