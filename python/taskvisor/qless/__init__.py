"""Runs the classes of qless-py: ``taskvisor start -w 8 -q mail -- python3 -m taskvisor.qless -m app``.

    from taskvisor.qless import retry

    class Send:
        @staticmethod
        @retry(ConnectionError)
        def process(job):
            job["sent"] = deliver(job["to"])
            job.complete()

The page "Coming from qless" of the documentation says what is the same, and what is different.
"""

from .decorators import retry
from .exceptions import LostLockException, QlessException
from .job import Job

__all__ = ["Job", "LostLockException", "QlessException", "retry"]
