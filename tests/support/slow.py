"""An application that takes a second of CPU time to load, and a job of it that dies."""

import os
import signal

from heavy import burn
from taskvisor import job

burn(1)


@job("dies")
def dies():
    os.kill(os.getpid(), signal.SIGKILL)


@job("lives")
def lives():
    pass
