"""The workers of the tutorial's demo, ten times as fast: a good and a bad one, both failing at times."""

import os
import random
import time

from taskvisor import job


@job("value")
def work(value):
    time.sleep(float(os.environ["WORK"]))
    if random.random() < float(os.environ["FAILS"]):
        raise RuntimeError("bad luck")
    return f"done: {value.decode()}"
