"""The jobs of `benches/storm.rs`: `beasts.py KIND`, with the lock of the job at descriptor 9 of all that descends from it."""

import ctypes
import os
import signal
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_DUMPABLE, PTRACE_ATTACH = 4, 16


def child(of):
    """A child in a session of its own, which never comes back."""
    if os.fork() == 0:
        os.setsid()
        of()
        while True:
            time.sleep(1000)


def hide():
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def quick():
    pass


def sleeper():
    time.sleep(2)


def daemons():
    for _ in range(3):
        child(lambda: None)


def hidden():
    child(hide)


def setuid():
    child(lambda: os.execv("./sleep-as-nobody", ["sleep", "1000"]))


def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)


def giant():
    """A child with a gigabyte, which takes a while to be given back."""
    ready, told = os.pipe()
    if os.fork() == 0:
        memory = bytearray(1 << 30)
        memory[::4096] = b"x" * (len(memory) // 4096)
        os.write(told, b"x")
        time.sleep(1000)
    os.read(ready, 1)


def traced():
    """A leader that its own child traces: nobody can reap it before that child is dead."""
    leader = os.getpid()
    child(lambda: libc.ptrace(PTRACE_ATTACH, leader, None, None))
    time.sleep(1000)


def chain(length=1000):
    """Each is the child of the last."""
    for _ in range(length):
        if os.fork() != 0:
            time.sleep(1000)
    open("chained." + os.environ["TASKVISOR_JOB"], "w").close()
    time.sleep(1000)


def bomb(most=300):
    """Processes that fork as long as there is room for so many, each in a session of its own."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with open("/proc/self/cgroup") as own:
        path = next(line.split(":")[2].strip() for line in own if ":pids:" in line)
    name = "/sys/fs/cgroup/pids" + path + "/pids.current"
    while True:
        with open(name) as count:
            room = int(count.read()) < most
        try:
            if room and os.fork() == 0:
                os.setsid()
        except OSError:
            pass


def swarm():
    """A bomb that fills all that it is given."""
    bomb(1 << 30)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
