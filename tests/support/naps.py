"""Jobs that sleep, for workloads of `taskvisor simulate` on the real program."""

import time

from taskvisor import job


@job("nap")
def nap(seconds):
    time.sleep(seconds)
