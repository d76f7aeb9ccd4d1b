"""Jobs in Python for taskvisor, the supervisor of job-queue workers.

    from taskvisor import job

    @job("mail.Send", queue="mail", time_limit=60)
    def send(to, subject="hi"):
        return {"sent": 1}

    send.put("a@b.c")           # queues a job and returns its id

The supervisor starts the workers: ``taskvisor start -q mail -m prefork -- python3 -m taskvisor.worker app``.

`client` is what an application uses, `worker` the process that runs jobs, `protocol` the lines between worker and
supervisor, `qless` the classes of qless-py. Applications import from `taskvisor` and `taskvisor.qless` only.
"""

from .client.advance import Advance
from .client.decorator import job
from .client.job_function import JobFunction
from .client.new_job import NewJob
from .client.putting import aput, aput_many, put, put_many
from .client.running_job import Job, current_job, progress
from .errors import Fail, Interrupted, PutError, Retry, Snooze, SoftTimeLimitExceeded, TimeLimitExceeded
from .version import VERSION

__version__ = VERSION

__all__ = [
    "Advance",
    "Fail",
    "Interrupted",
    "Job",
    "JobFunction",
    "NewJob",
    "PutError",
    "Retry",
    "Snooze",
    "SoftTimeLimitExceeded",
    "TimeLimitExceeded",
    "aput",
    "aput_many",
    "current_job",
    "job",
    "progress",
    "put",
    "put_many",
]
