"""Jobs in Python for taskvisor, the supervisor of job-queue workers.

    from taskvisor import job

    @job("mail.Send", queue="mail", time_limit=60)
    def send(to, subject="hi"):
        return {"sent": 1}

    id = send.put("a@b.c")      # queues a job and returns its id, a text
    id.result(timeout=60)       # waits for what it returns

The supervisor starts the workers: ``taskvisor start -q mail -m prefork -- python3 -m taskvisor.worker app``.

`client` is what an application uses, `api` the clients of a supervisor's API, `worker` the process that runs jobs,
`protocol` the lines between worker and supervisor, `qless` the classes of qless-py. Applications import from `taskvisor`,
`taskvisor.testing` and `taskvisor.qless`.
"""

from .client.advance import Advance
from .client.around import Middleware, middleware
from .client.decorator import job
from .client.job_function import JobFunction
from .client.job_id import JobId
from .client.job_info import JobCanceled, JobFailed, JobInfo, ResultNotKept
from .client.many import agather, as_completed, gather
from .client.new_job import NewJob
from .client.putting import aput, aput_many, put, put_many
from .client.running_job import Job, current_job, progress
from .client.settings import configure
from .errors import (DataMismatch, EventLoopBlocked, Fail, Interrupted, NoSuchJob, PutError, Retry, Snooze,
                     SoftTimeLimitExceeded, SupervisorError, TimeLimitExceeded)
from .protocol.values import encoder
from .version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .api.client import AsyncClient, Client
else:
    def __getattr__(name):
        """Loads the clients when they are asked for: a worker needs none."""
        if name not in ("AsyncClient", "Client"):
            raise AttributeError(f"module 'taskvisor' has no attribute {name!r}")
        from .api import client

        return getattr(client, name)

__version__ = VERSION

__all__ = [
    "Advance",
    "AsyncClient",
    "Client",
    "DataMismatch",
    "EventLoopBlocked",
    "Fail",
    "Interrupted",
    "Job",
    "JobCanceled",
    "JobFailed",
    "JobFunction",
    "JobId",
    "JobInfo",
    "Middleware",
    "NewJob",
    "NoSuchJob",
    "PutError",
    "ResultNotKept",
    "Retry",
    "Snooze",
    "SoftTimeLimitExceeded",
    "SupervisorError",
    "TimeLimitExceeded",
    "agather",
    "aput",
    "aput_many",
    "as_completed",
    "configure",
    "current_job",
    "encoder",
    "gather",
    "job",
    "middleware",
    "progress",
    "put",
    "put_many",
]
