"""The machine's own limit for a template: `python forks.py N` forks N children, 2 at a time, from an interpreter that has
loaded the same modules and is frozen alike. Prints the seconds it took."""

import gc
import os
import sys
import time

import taskvisor.worker.prefork
import taskvisor.worker.start
import taskvisor.worker.template

import app

gc.collect()
gc.freeze()
start, running = time.monotonic(), 0
for _ in range(int(sys.argv[1])):
    if running == 2:
        os.wait()
        running -= 1
    if os.fork() == 0:
        app.nothing()
        os._exit(0)
    running += 1
while running:
    os.wait()
    running -= 1
print(time.monotonic() - start)
