"""A worker that breaks the protocol in every way; the job's class selects the way. It writes its frames by hand."""

import json
import os
import select
import signal
import socket
import sys
import time

channel = socket.socket(fileno=int(os.environ["TASKVISOR_FD"]))
part = sys.argv[1] if len(sys.argv) > 1 else ""


def raw(line):
    channel.sendall(line)


def say(**frame):
    raw(json.dumps(frame).encode() + b"\n")


def done(job, outcome="complete", **more):
    say(done={"job": job["id"], "fence": job["fence"], "outcome": outcome, **more})


def frames():
    buffer = b""
    while True:
        line, newline, rest = buffer.partition(b"\n")
        if newline:
            buffer = rest
            yield json.loads(line)
            continue
        chunk = channel.recv(1 << 20)
        if not chunk:
            return
        buffer += chunk


def garbage(job):
    raw(b"\x00\xff this is no frame\n")
    time.sleep(1000)


def half(job):
    raw(b'{"done":{"job":"' + job["id"].encode())
    os._exit(0)


def long(job):
    raw(b'{"progress":{"message":"' + b"x" * (17 << 20))
    time.sleep(1000)


def unknown(job):
    say(dome={"job": job["id"]})
    time.sleep(1000)


def twice(job):
    done(job, result=1)
    done(job, result=2)


def other(job):
    say(done={"job": "somebody-elses", "fence": 1, "outcome": "complete"})
    say(done={"job": job["id"], "fence": job["fence"] + 7, "outcome": "complete", "result": "wrong"})
    done(job, result="right")


def talks(job):
    """Fails with a very long message."""
    done(job, "failed", error={"group": "g" * (1 << 20), "message": "m" * (10 << 20), "trace": "t" * (1 << 20)})


def raves(job):
    """Sends frames of jobs that it does not have."""
    for n in range(1000):
        say(done={"job": f"{n}-" + "x" * (100 << 10), "fence": 1, "outcome": "complete"})
    time.sleep(1000)


def misspells(job):
    put = {"queue": "default", "class": "fine", "prority": 3}
    say(call={"n": 1, "verb": "put", "args": {"jobs": [put]}})
    done(job, result=next(stream)["reply"]["error"])


def leaves(job):
    os._exit(0)


def blocks(job):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    open("begun", "w").close()
    time.sleep(1000)


def shuts(job):
    channel.close()
    time.sleep(1000)


def floods(job):
    line = b"x" * 99 + b"\n"
    with os.fdopen(1, "wb", closefd=False) as out:
        for _ in range(1 << 20):
            out.write(line)
    done(job)


def forks(job):
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(1000)


def litters(job):
    for _ in range(2):
        if not os.fork():
            os.setsid()
            time.sleep(1000)
            os._exit(0)
    done(job)


def quits(job):
    """Exits when the next job has arrived, without reading it."""
    done(job)
    select.select([channel], [], [])
    os._exit(0)


def calls(job):
    data = {"jobs": [{"queue": "default", "class": "fine", "data": {"n": [1, 2.50]}, "tags": ["child"]}]}
    for n, (verb, args) in enumerate([("put", data), ("dance", {}), ("put", {"jobs": [{"class": "fine"}]})]):
        say(call={"n": n, "verb": verb, "args": args})
    # Answers may come in any order.
    answers = sorted((next(stream)["reply"] for _ in range(3)), key=lambda answer: answer["n"])
    done(job, result=answers)


def calls_about_jobs(job):
    """Makes calls about its own job and others; returns the answers."""
    me, other = job["id"], job["data"]
    wishes = [("tag", {"id": me, "add": ["a"]}), ("data", {"id": me, "fence": job["fence"], "data": [1.50]}),
              ("priority", {"id": other, "priority": 3}), ("data", {"id": other, "fence": 1, "data": 0}),
              ("data", {"id": me, "fence": job["fence"] + 1, "data": 0}), ("data", {"id": me, "fence": 1}),
              ("tag", {"add": ["a"]}), ("track", {"id": "none"}), ("priority", {"id": me, "priority": 3.5})]
    for n, (verb, args) in enumerate(wishes):
        say(call={"n": n, "verb": verb, "args": args})
    answers = sorted((next(stream)["reply"] for _ in wishes), key=lambda answer: answer["n"])
    done(job, result=[answer.get("ok", answer.get("error")) for answer in answers])


def asks(job):
    """Makes calls without end and reads no answer."""
    frame = json.dumps({"call": {"n": 1, "verb": "job", "args": {"id": job["data"]}}}).encode() + b"\n"
    while True:
        raw(frame)


def fine(job):
    print("a word on stdout", flush=True)
    done(job, result={"data": job["data"], "attempt": job["attempt"]})


def where(job):
    os.chdir(job["cwd"])
    found = os.listdir(".")
    os.makedirs("deep/er")
    open("deep/er/file", "w").write("left")
    done(job, result={"cwd": job["cwd"], "found": found})


def who(job):
    done(job, result={"pid": os.getpid(), "env": dict(os.environ), "ids": [os.getuid(), os.getgid(), os.getgroups()]})


if part == "traceback":
    raise RuntimeError("cannot be imported")
if part == "mute":
    time.sleep(1000)
say(hello={"protocol": 2 if part == "modern" else 1, "sdk": "actor", "some": "field we do not know"})
if part == "shy":
    time.sleep(1000)
say(ready={})
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
stream = frames()
for frame in stream:
    if "run" in frame:
        globals()[frame["run"]["job"]["class"]](frame["run"]["job"])
