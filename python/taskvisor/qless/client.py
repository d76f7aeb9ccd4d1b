"""`job.client`: queues to put jobs into, and other jobs by id. It has no connection of its own to a broker."""

from __future__ import annotations

from ..client.new_job import NewJob
from ..client.running_job import Job as Run
from .base import BaseJob, asked
from .exceptions import QlessException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Optional, Union


class Client:
    """The part of qless-py's client that goes through the supervisor: a worker has no connection of its own."""

    def __init__(self, run: Run) -> None:
        self._run = run
        #: Queues by name, to put jobs into.
        self.queues: Queues = Queues(self)
        #: Jobs by id.
        self.jobs: Jobs = Jobs(self)

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Asks the supervisor."""
        return asked(self._run.runtime, verb, arguments)

    @property
    def worker_name(self) -> str:
        """The worker that runs this job: host, pool and slot."""
        return by_record(self, self.ask("job", id=self._run.id)).worker_name

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"job.client.{name}: a job of taskvisor has client.queues[NAME].put(…), client.jobs[JID] "
                             "and client.worker_name; for more, connect by a client of your own")


class Queues:
    """Queues by name."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getitem__(self, name: str) -> Queue:
        return Queue(self._client, name)


class Queue:
    """A queue to put jobs into."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        #: Its name.
        self.name = name

    def put(self, klass: Union[type, str], data: Any, priority: Optional[int] = None,
            tags: Optional[Sequence[str]] = None, delay: Optional[float] = None, retries: Optional[int] = None,
            jid: Optional[str] = None, depends: Optional[Sequence[str]] = None) -> str:
        """Queues a job and returns its id, once it is durable. An id that exists already is refused."""
        job = NewJob(self.name, class_string(klass), data, delay=delay, priority=priority, tags=tags,
                             retries=retries, id=jid, depends=depends)
        ids: list[str] = self._client.ask("put", jobs=[job.fields()])["ids"]
        return ids[0]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"queue.{name}: a job of taskvisor can only put into queues; see `taskvisor queue` and "
                             "`taskvisor job list` for the rest")


class Jobs:
    """Jobs by id."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getitem__(self, jid: str) -> Optional[BaseJob]:
        try:
            return by_record(self._client, self._client.ask("job", id=jid))
        except QlessException as error:
            if "no job has the id" in str(error):
                return None
            raise


def by_record(client: Client, record: dict[str, Any]) -> BaseJob:
    """A job from a record of the supervisor."""
    job = BaseJob(client, record["id"], record["class"], record["queue"], record.get("data", record.get("raw")),
                  record["priority"], record["tags"])
    job._record = record
    return job


def class_string(klass: Union[type, str]) -> str:
    """The name of the class in a job.

    >>> class_string(Client), class_string("app.Mail")
    ('taskvisor.qless.client.Client', 'app.Mail')
    """
    return klass if isinstance(klass, str) else f"{klass.__module__}.{klass.__name__}"
