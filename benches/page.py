#!/usr/bin/env python3
"""Measures the page for browsers on its server: benches/page.py BINARY [queues|jobs|slots|changes|tabs|bulk]…

Each figure has a supervisor of its own, with jobs in a store on the disk. Times are those of whole answers to one client,
one after the other. `tabs` listens as 100 browsers do and fetches as one that is looked at does. A figure with a goal says
whether that was met."""

import http.client
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent.parent
TASKS = '''
from taskvisor import job

@job("tick")
def tick(number=0):
    pass

@job("fail", retries=0)
def fail(number=0):
    raise ValueError("no")
'''
SLOTS = '{name: programs, workers: WORKERS, queues: [default]}'
APP = '{name: app, workers: 2, mode: prefork, queues: [fast], command: [python3, -m, taskvisor.worker, tasks]}'


class Place:
    """A supervisor with its page, in a directory of its own."""

    def __init__(self, binary, workers, app=False):
        self.binary, self.dir = binary, tempfile.TemporaryDirectory()
        place = pathlib.Path(self.dir.name)
        (place / "tasks.py").write_text(TASKS)
        pools = [SLOTS.replace("WORKERS", str(workers))] + ([APP] if app else [])
        (place / "conf.yaml").write_text(f"pools: [{', '.join(pools)}]\n")
        self.env = dict(os.environ, TASKVISOR_RUN_DIR=f"{place}/run", TASKVISOR_STATE_DIR=f"{place}/state")
        self.env["PYTHONPATH"] = f"{HERE}/python:{place}"
        begin = dict(env=self.env, cwd=place)
        log = open(place / "log", "w")
        self.supervisor = subprocess.Popen([binary, "start", "-c", "conf.yaml"], stderr=log, **begin)
        self.begin = begin
        while subprocess.run([binary, "status", "-q"], stderr=subprocess.DEVNULL, **begin).returncode:
            time.sleep(0.2)
        self.page = subprocess.Popen([binary, "web"], stdout=subprocess.PIPE, text=True, **begin)
        url = self.page.stdout.readline().strip().removeprefix("http://")
        self.host, path = url.split("/", 1)
        self.cookie = None
        answer = self.ask(self.client(), f"/{path}")
        self.cookie = answer.getheader("set-cookie").split(";")[0]

    def run(self, *words, text=None):
        done = subprocess.run([self.binary, *words], input=text, text=True, capture_output=True, **self.begin)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def client(self):
        return http.client.HTTPConnection(self.host, timeout=60)

    def ask(self, client, path, body=None):
        head = {"cookie": self.cookie} if self.cookie else {}
        if body is None:
            client.request("GET", path, headers=dict(head, **{"tv-fragment": "1"}))
        else:
            head["origin"] = f"http://{self.host}"
            client.request("POST", path, body=body, headers=head)
        answer = client.getresponse()
        answer.text = answer.read()
        return answer

    def p99(self, path, times=300, goal=None):
        client, took = self.client(), []
        for _ in range(times):
            begun = time.perf_counter()
            answer = self.ask(client, path)
            took.append((time.perf_counter() - begun) * 1000)
            assert answer.status == 200, (path, answer.status, answer.text)
        took.sort()
        p99 = took[len(took) * 99 // 100 - 1]
        return f"p50 {took[len(took) // 2]:.1f} ms, p99 {p99:.1f} ms, {len(answer.text):,} bytes{against(p99, goal, 'ms')}"

    def counts(self, queue):
        return json.loads(self.run("queue", "list", "--json")).get(queue, {}).get("jobs", {})

    def supervisor_pid(self):
        children = pathlib.Path(f"/proc/{self.supervisor.pid}/task/{self.supervisor.pid}/children").read_text()
        return next(pid for pid in children.split() if "supervisor" in pathlib.Path(f"/proc/{pid}/comm").read_text())

    def close(self):
        self.page.kill()
        self.page.wait()
        subprocess.run([self.binary, "stop", "--kill"], capture_output=True, **self.begin)
        self.supervisor.wait()
        self.dir.cleanup()


def against(value, goal, unit):
    """Whether a figure meets its goal, in words."""
    return f"; goal {goal} {unit}: {'met' if value <= goal else 'missed'}" if goal is not None else ""


def lines(count):
    return "".join(f'{{"number": {number}}}\n' for number in range(count))


def queues(binary):
    place = Place(binary, 2)
    for number in range(100):
        place.run("put", f"queue-{number}", "tick", "{}")
    print("overview with 100 queues:", place.p99("/", goal=10))
    return place


def jobs(binary, count=1_000_000):
    place = Place(binary, 2)
    for _ in range(0, count, 100_000):
        place.run("put", "many", "tick", "--lines", text=lines(min(count, 100_000)))
    print(f"jobs, of {count:,}:", place.p99("/jobs", goal=20))
    print(f"jobs, of {count:,}, by queue and state:", place.p99("/jobs?q=state:waiting+queue:many", goal=20))
    return place


def slots(binary):
    place = Place(binary, 1000)
    print("workers with 1,000 slots:", place.p99("/pool/programs", 200, goal=60))
    print("overview with 1,000 slots:", place.p99("/", 200, goal=60))
    return place


def cpu(pid):
    """Seconds of CPU that a process has taken."""
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def pss(pid):
    """Its share of memory, in MB."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(next(line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))) / 1024


def turns(pid):
    """How often its threads have been scheduled."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/status")
    lines = [line for task in tasks for line in task.read_text().splitlines() if "voluntary_ctxt" in line]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))


class Tabs:
    """Listens as this many browsers do."""

    def __init__(self, place, count):
        self.answers = []
        for _ in range(count):
            client = place.client()
            client.request("GET", "/live", headers={"cookie": place.cookie})
            self.answers.append((client, client.getresponse()))
        self.readers = [threading.Thread(target=self.listen, args=answer) for answer in self.answers]
        for reader in self.readers:
            reader.start()

    def listen(self, _, answer):
        while answer.readline():
            pass

    def close(self):
        for client, _ in self.answers:
            client.sock.shutdown(2)
        for reader in self.readers:
            reader.join()


def tabs(binary, seconds=8, rounds=3):
    place = Place(binary, 2, app=True)
    page, supervisor = place.page.pid, place.supervisor_pid()
    time.sleep(3)
    begun = turns(page), turns(supervisor)
    time.sleep(10)
    print(f"nobody looks: {turns(page) - begun[0]} wake-ups of the page in 10 s, {turns(supervisor) - begun[1]} of the supervisor")

    is_over = threading.Event()
    def put():
        while not is_over.is_set():
            begun = time.monotonic()
            place.run("put", "fast", "tick", "--lines", text=lines(500))
            time.sleep(max(0.0, 0.5 - (time.monotonic() - begun)))

    putting = threading.Thread(target=put)
    putting.start()
    time.sleep(1)
    for _ in range(rounds):
        for name, count in [("no tab", 0), ("100 tabs, hidden", 100), ("100 tabs, one of them looked at", 100)]:
            listening = Tabs(place, count)
            spent, begun = (cpu(page), cpu(supervisor)), time.monotonic()
            client = place.client()
            while time.monotonic() - begun < seconds:
                took = time.monotonic()
                if "looked" in name:
                    place.ask(client, "/")
                time.sleep(max(0.25, 5 * (time.monotonic() - took)))
            took = time.monotonic() - begun
            waiting = place.counts("fast").get("waiting", 0)
            assert waiting < 1_000, f"{waiting} jobs wait"
            shares = [(cpu(pid) - before) / took for pid, before in zip((page, supervisor), spent)]
            alone = shares[1] if count == 0 else alone
            more = (shares[1] - alone) * 100
            print(f"{name}, at 1,000 jobs/s: page {shares[0]:.1%} of a core{against(shares[0] * 100, 3, '%')},"
                  f" {pss(page):.1f} MB{against(pss(page), 12, 'MB')}; supervisor {shares[1]:.1%},"
                  f" {more:.1f} % more{against(more, 1, '%')}")
            listening.close()
    is_over.set()
    putting.join()
    return place


def bulk(binary, count=100_000):
    place = Place(binary, 2, app=True)
    place.run("put", "fast", "fail", "--lines", text=lines(count))
    while place.counts("fast").get("failed", 0) < count:
        time.sleep(0.5)
    place.run("queue", "pause", "fast")
    begun = time.perf_counter()
    answer = place.ask(place.client(), "/act", "act=retry-all&state=failed")
    said = time.perf_counter() - begun
    assert answer.status == 303, (answer.status, answer.text)
    print(f"retry of {count:,}: answered after {said:.2f} s; meanwhile the overview:", place.p99("/", 40))
    while place.counts("fast").get("failed", 0):
        time.sleep(0.1)
    print(f"retry of {count:,}: all wait again after {time.perf_counter() - begun:.1f} s")
    return place


def changes(binary, times=100):
    """From the put of a job until the page that was told of it has it: `put` itself, message, fetch."""
    place = Place(binary, 2)
    place.run("queue", "pause", "later")
    listener, client, took = place.client(), place.client(), []
    listener.request("GET", "/live", headers={"cookie": place.cookie})
    stream = listener.getresponse()
    place.ask(client, "/jobs")
    for _ in range(times):
        # After the pause between two messages, at any moment of it.
        time.sleep(0.3 + random.random() / 4)
        begun = time.perf_counter()
        job = place.run("put", "later", "tick", "{}").strip()
        while True:
            while not stream.readline().startswith(b"data:"):
                pass
            if job.encode() in place.ask(client, "/jobs").text:
                break
        took.append((time.perf_counter() - begun) * 1000)
    took.sort()
    p95 = took[len(took) * 95 // 100 - 1]
    print(f"from put to page: p50 {took[len(took) // 2]:.0f} ms, p95 {p95:.0f} ms{against(p95, 400, 'ms')}")
    return place


ALL = {"queues": queues, "jobs": jobs, "slots": slots, "changes": changes, "tabs": tabs, "bulk": bulk}


def main():
    binary = os.path.abspath(sys.argv[1])
    for name in sys.argv[2:] or ALL:
        ALL[name](binary).close()


main()
