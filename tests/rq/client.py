"""The real client of RQ, for tests: evaluates each line of stdin and prints its value as JSON."""

import datetime
import json
import sys
import time

import redis
import rq
import rq_tasks as tasks
from rq import Callback, Queue, Retry, Worker
from rq.command import send_kill_horse_command, send_shutdown_command, send_stop_job_command
from rq.job import Dependency, Job
from rq.registry import (CanceledJobRegistry, DeferredJobRegistry, FailedJobRegistry, FinishedJobRegistry,
                         ScheduledJobRegistry, StartedJobRegistry)
from rq.serializers import JSONSerializer
from rq.suspension import resume, suspend

Webhook = getattr(rq, "Webhook", None)

if rq.VERSION >= "2":
    from rq import Repeat
if rq.VERSION >= "3":
    from rq.cron import CronScheduler
    from rq.group import Group
    from rq.rate_limit import RateLimit

c = redis.Redis(port=int(sys.argv[1]))


def q(name="default", **options):
    return Queue(name, connection=c, **options)


def job(id):
    return Job.fetch(id, connection=c)


def status(id):
    """None if there is no such job."""
    found = c.hget(f"rq:job:{id}", "status")
    return found and found.decode()


def statuses(ids):
    return [status(id) for id in ids]


def in_seconds(seconds):
    return datetime.timedelta(seconds=seconds)


def raises(function):
    """The name of the exception that the call raises."""
    try:
        return function()
    except Exception as error:
        return type(error).__name__


def left():
    """The keys that only running jobs and workers have; the mark of a late fetch goes by itself after an
    hour, that of these data stays."""
    kinds = ("rq:wip:", "rq:execution", "rq:workers", "rq:taskvisor", "rq:scheduler-lock")
    return sorted(key.decode() for key in c.keys() if key.decode().startswith(kinds)
                  and key not in (b"rq:taskvisor:unheard", b"rq:taskvisor:mark"))


def shown(value):
    return value.decode() if isinstance(value, bytes) else str(value)


for line in sys.stdin:
    try:
        answer = {"ok": eval(line)}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer, default=shown), flush=True)
