"""The jobs that `workers.rs` measures with."""

import time

from taskvisor import job

LEAKED = []


@job("nothing")
def nothing():
    return None


@job("stamp")
def stamp():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@job("leak")
def leak():
    LEAKED.append(bytearray(b"x") * 10_000_000)
