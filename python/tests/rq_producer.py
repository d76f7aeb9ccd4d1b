"""Evaluates the expressions of a test, with RQ and the sample imported, and prints their values."""

import base64
import sys

import redis
import rq
import rq_sample as sample
from rq import Callback, Queue, Retry
from rq.job import Job

connection = redis.Redis(unix_socket_path=sys.argv[1])


def put(function, *args, serializer=None, **options):
    """Puts a job; returns its data as the supervisor would send it."""
    job = Queue("q", connection=connection, serializer=serializer).enqueue(function, *args, **options)
    fields = {name.decode(): base64.b64encode(value).decode() for name, value in connection.hgetall(job.key).items()}
    return {"id": job.id, "queue": "q", "execution": "e1", "worker": "w1", "prefix": "rq", "fields": fields}


def status(id):
    """The status of a job, as text; None if there is no job."""
    found = connection.hget(f"rq:job:{id}", "status")
    return found and found.decode()


def result(text):
    """Decodes a result made by a worker."""
    return Job("x", connection=connection).serializer.loads(base64.b64decode(text))


names = {"put": put, "status": status, "result": result, "sample": sample, "rq": rq, "Retry": Retry, "Callback": Callback,
         "connection": connection, "Job": Job}
for line in sys.stdin:
    print(repr(eval(line, names)), flush=True)
