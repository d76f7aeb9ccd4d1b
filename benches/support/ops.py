"""The jobs that `operations.rs` measures with."""

import ctypes
import os
import signal
import time

from taskvisor import job


@job("deaf")
def deaf():
    """In C code, with all signals blocked and the interpreter's lock held; it has said who it is."""
    with open(".pid", "w") as file:
        file.write(str(os.getpid()))
    os.rename(".pid", "pid")
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    ctypes.PyDLL(None).sleep(1000)


@job("works")
def works():
    time.sleep(0.005)


@job("litters")
def litters():
    """Leaves a process in a session of its own."""
    if not os.fork():
        os.setsid()
        time.sleep(1000)
        os._exit(0)
    time.sleep(0.005)
