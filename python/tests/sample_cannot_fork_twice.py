"""An application with a thread, in whose template the second of two forks fails."""

import errno
import os

from sample_with_thread import *  # noqa: F401,F403

from taskvisor.worker import forking

_template = os.getpid()
_fork = forking.fork_child


def _refuse():
    if os.getpid() != _template:
        raise OSError(errno.EAGAIN, "no more")
    return _fork()


forking.fork_child = _refuse
