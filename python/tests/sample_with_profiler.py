"""An application with a profiler, which has a timer of its own."""

import signal

from taskvisor import job

signal.setitimer(signal.ITIMER_PROF, 900, 900)


@job("interval")
def interval():
    return signal.getitimer(signal.ITIMER_PROF)[1]
