"""Forking a child whose parent is our own parent, so that the keeper owns it from its first moment."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import threading
import time
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_TID_ADDRESS = 40
_CLONE_PARENT = 0x00008000
_CLONE_CHILD_CLEARTID = 0x00200000
_CLONE_CHILD_SETTID = 0x01000000
_CLONE_INTO_CGROUP = 0x200000000
#: The C library's note of its own thread id would be that of the template otherwise.
_KEEP_THREAD_ID = _CLONE_CHILD_CLEARTID | _CLONE_CHILD_SETTID
#: The same number on every machine.
_CLONE3 = 435
#: From machine to the number of the system call, and where the address of the thread id stands among its arguments.
_CLONE = {"x86_64": (56, 3), "aarch64": (220, 4), "riscv64": (220, 4)}

# The interpreter lock must be held from before the fork to after it, so PyDLL and not CDLL.
_libc = ctypes.PyDLL(None, use_errno=True)
_python = ctypes.pythonapi


def set_subreaper(wanted: bool) -> None:
    """Whether orphans below this process become its children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(wanted))


def die_with_parent() -> None:
    """SIGKILL when the parent dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def fork_sibling(parent: int, cgroup: Optional[int] = None) -> int:
    """Forks a child of `parent`, which is our parent. Returns 0 in the child, anything else here.

    The child is born in the cgroup whose directory is given, if the system lets us; else it stays in ours.

    With one thread this is a bare clone; other threads may hold locks of the C library, so with more of them it is
    two of its own forks. Raises OSError.
    """
    address = _thread_id_address()
    if address is not None:
        return _clone(address, _CLONE_PARENT, cgroup)
    return _fork_twice(parent, cgroup)


def _clone(address: int, flags: int, cgroup: Optional[int]) -> int:
    clone, before, in_child, in_parent = (_libc.syscall, _python.PyOS_BeforeFork, _python.PyOS_AfterFork_Child,
                                          _python.PyOS_AfterFork_Parent)
    clone.restype = ctypes.c_long
    into_cgroup = None if cgroup is None else _clone3_arguments(address, flags, cgroup)
    anywhere = _clone_arguments(address, flags)
    before()
    pid: int = -1
    if into_cgroup is not None:
        # Another user may not, and some sandboxes know no clone3.
        pid = clone(*into_cgroup)
    if pid < 0:
        pid = clone(*anywhere)
    if pid == 0:
        in_child()
        return 0
    error = ctypes.get_errno()
    in_parent()
    if pid < 0:
        raise OSError(error, os.strerror(error))
    return pid


def _clone_arguments(address: int, flags: int) -> list[Any]:
    number, position = _CLONE[platform.machine()]
    arguments = [ctypes.c_long(number), ctypes.c_ulong(flags | _KEEP_THREAD_ID | signal.SIGCHLD)]
    arguments += [ctypes.c_long(0)] * 4
    arguments[1 + position] = ctypes.c_long(address)
    return arguments


def _clone3_arguments(address: int, flags: int, cgroup: int) -> list[Any]:
    # With CLONE_PARENT the child has our own exit signal, and none may be given.
    exit_signal = 0 if flags & _CLONE_PARENT else int(signal.SIGCHLD)
    # flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup
    fields = (ctypes.c_uint64 * 11)(flags | _KEEP_THREAD_ID | _CLONE_INTO_CGROUP, 0, address, 0, exit_signal,
                                    0, 0, 0, 0, 0, cgroup)
    return [ctypes.c_long(_CLONE3), ctypes.byref(fields), ctypes.c_size_t(ctypes.sizeof(fields))]


def _fork_twice(parent: int, cgroup: Optional[int]) -> int:
    middle = _fork()
    if middle == 0:
        try:
            # Here is one thread only.
            address = None if cgroup is None else _thread_id_address()
            child = _fork() if address is None else _clone(address, 0, cgroup)
        except OSError as error:
            os._exit(error.errno or 1)
        if child != 0:
            os._exit(0)
        # The kernel hands us on when the process in the middle is gone.
        own = os.getppid()
        while os.getppid() == own != parent:
            time.sleep(0.0002)
        return 0
    _, status = os.waitpid(middle, 0)
    if status != 0:
        error_number = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
        raise OSError(error_number, os.strerror(error_number))
    return middle


def _fork() -> int:
    with warnings.catch_warnings():
        # From 3.12 on a fork with threads warns. Here the child goes on with the one that it has.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _thread_id_address() -> Optional[int]:
    """Where the C library keeps the thread id of the only thread, or None if a bare clone is not safe here."""
    if platform.machine() not in _CLONE or threading.current_thread() is not threading.main_thread():
        return None
    if len(os.listdir("/proc/self/task")) != 1:
        return None
    address = ctypes.c_void_p(0)
    if _libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0) != 0 or not address.value:
        return None
    # Another C library than glibc may keep something else there.
    if ctypes.c_int.from_address(address.value).value != threading.get_native_id():
        return None
    return address.value


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0),
                   ctypes.c_ulong(0)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")
