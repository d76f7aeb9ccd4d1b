"""Forks a child whose parent is our own parent, so that the keeper is its parent from the start.

It makes system calls by ctypes. Nothing here knows of jobs or frames.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
import warnings

from . import fork_hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_TID_ADDRESS = 40
_CLONE_PARENT = 0x00008000
_CLONE_CHILD_CLEARTID = 0x00200000
_CLONE_CHILD_SETTID = 0x01000000
_CLONE_INTO_CGROUP = 0x200000000
#: Otherwise the C library would keep the template's thread id as the child's.
_KEEP_THREAD_ID = _CLONE_CHILD_CLEARTID | _CLONE_CHILD_SETTID
#: The number of the system call, the same on every machine.
_CLONE3 = 435
_CGROUP_FIELD = 10
#: By machine: the number of the system call, and the position of the thread id's address among its arguments.
_CLONE = {"x86_64": (56, 3), "aarch64": (220, 4), "riscv64": (220, 4)}

# The interpreter lock must be held across the fork, so PyDLL and not CDLL.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
#: Before a fork, after it, and in the child. Found here, as nobody finds what `gc.freeze` has frozen.
_hooks: tuple[Callable[[], object], ...] = fork_hooks.find() or (
    ctypes.pythonapi.PyOS_BeforeFork, ctypes.pythonapi.PyOS_AfterFork_Parent, ctypes.pythonapi.PyOS_AfterFork_Child)

# Objects that all forks can share are made once: the child copies each page that it or the template touches, and new
# objects touch the most.
_machine = os.uname().machine
_nothing = ctypes.c_ulong(0)
_die_with_parent = (ctypes.c_int(_PR_SET_PDEATHSIG), ctypes.c_ulong(signal.SIGKILL), _nothing, _nothing, _nothing)
_subreaper = tuple((ctypes.c_int(_PR_SET_CHILD_SUBREAPER), ctypes.c_ulong(wanted), _nothing, _nothing, _nothing)
                   for wanted in (0, 1))


def set_subreaper(wanted: bool) -> None:
    """Sets whether orphans below this process become its children."""
    _prctl(_subreaper[wanted])


def die_with_parent() -> None:
    """Makes the kernel send SIGKILL when the parent dies."""
    _prctl(_die_with_parent)


def give_back() -> None:
    """Returns free memory to the system, for example from compiling the application. Otherwise each fork would inherit
    it."""
    # Only glibc has this function.
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


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
    calls = _calls.get(flags)
    if calls is None:
        calls = _calls[flags] = _Calls(address, flags)
    clone = _libc.syscall
    before, in_parent, in_child = _hooks
    before()
    pid: int = -1
    if cgroup is not None:
        # Another user may not do this, and some sandboxes have no clone3.
        calls.fields[_CGROUP_FIELD] = cgroup
        pid = clone(*calls.into_cgroup)
    if pid < 0:
        pid = clone(*calls.anywhere)
    if pid == 0:
        in_child()
        return 0
    error = 0 if pid > 0 else ctypes.get_errno()
    in_parent()
    if pid < 0:
        raise OSError(error, os.strerror(error))
    return pid


class _Calls:
    """The arguments of the system calls that fork."""

    def __init__(self, address: int, flags: int) -> None:
        number, position = _CLONE[_machine]
        arguments = [ctypes.c_long(number), ctypes.c_ulong(flags | _KEEP_THREAD_ID | signal.SIGCHLD)]
        arguments += [ctypes.c_long(0)] * 4
        arguments[1 + position] = ctypes.c_long(address)
        self.anywhere: tuple[Any, ...] = tuple(arguments)
        # With CLONE_PARENT the child has our own exit signal, and none may be given.
        exit_signal = 0 if flags & _CLONE_PARENT else int(signal.SIGCHLD)
        # flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup
        self.fields = (ctypes.c_uint64 * 11)(flags | _KEEP_THREAD_ID | _CLONE_INTO_CGROUP, 0, address, 0, exit_signal)
        self.into_cgroup: tuple[Any, ...] = (ctypes.c_long(_CLONE3), ctypes.byref(self.fields),
                                             ctypes.c_size_t(ctypes.sizeof(self.fields)))


#: Prepared arguments by the flags of the fork.
_calls: dict[int, _Calls] = {}


def _fork_twice(parent: int, cgroup: Optional[int]) -> int:
    middle = fork_child()
    if middle == 0:
        try:
            # There is one thread only here.
            address = None if cgroup is None else _thread_id_address()
            child = fork_child() if address is None else _clone(address, 0, cgroup)
        except OSError as error:
            os._exit(error.errno or 1)
        if child != 0:
            os._exit(0)
        # The kernel changes our parent when the process in the middle is gone.
        own = os.getppid()
        while os.getppid() == own != parent:
            time.sleep(0.0002)
        return 0
    _, status = os.waitpid(middle, 0)
    if status != 0:
        error_number = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
        raise OSError(error_number, os.strerror(error_number))
    return middle


def fork_child() -> int:
    """Forks a child of this process."""
    with warnings.catch_warnings():
        # Since 3.12 a fork with threads warns. Here the child goes on with only the thread that it has.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _thread_id_address() -> Optional[int]:
    """The address at which the C library keeps the id of the only thread, or None if a bare clone is not safe here."""
    if not _has_one_thread() or threading.get_ident() != threading.main_thread().ident:
        return None
    if not _found:
        _found.append(_find_thread_id())
    return _found[0]


#: The result: an address that is valid as long as the process and its forks live, or None.
_found: list[Optional[int]] = []


def _has_one_thread() -> bool:
    # A directory has a link for itself, one from its parent, and here one for each thread.
    return os.stat("/proc/self/task").st_nlink == 3 or len(os.listdir("/proc/self/task")) == 1


def _find_thread_id() -> Optional[int]:
    if _machine not in _CLONE:
        return None
    address = ctypes.c_void_p(0)
    if _libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0) != 0 or not address.value:
        return None
    # Another C library than glibc may keep something else there.
    if ctypes.c_int.from_address(address.value).value != threading.get_native_id():
        return None
    return address.value


def _prctl(arguments: tuple[Any, ...]) -> None:
    if _libc.prctl(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({arguments[0].value}): {os.strerror(error)}")
