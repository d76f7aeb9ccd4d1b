"""The clients: `Client` for threads and `AsyncClient` for event loops."""

from __future__ import annotations

import json

from ..client import asking, many
from ..client.new_job import NewJob, fields_of
from ..errors import SupervisorError
from ..protocol import http
from .async_jobs import AsyncJobs
from .async_queues import AsyncQueues
from .async_service import AsyncService
from .base import path
from .jobs import Jobs
from .queues import Queues
from .service import Service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import StreamReader
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
    from socket import socket
    from typing import Any, Literal, Optional, Union

    from ..client.job_id import JobId
    from . import answers

#: The supervisor sends something at least every 15 s.
_SILENCE_SECONDS = 60.0
#: What has failed when nothing comes.
_FOLLOW = "failed to follow the events"


class Client(Jobs, Queues, Service):
    """A client of one supervisor: all that its API does.

    Without arguments it is the supervisor that this process's own puts go to. `url` is one elsewhere, with `token` or
    `token_file`; `socket` is another one here. A request whose answer is lost is sent again for as long as
    `configure(patience=)` says, unless that could do it twice; TimeoutError after `timeout` seconds, if given.
    """

    def put(self, queue: str, class_name: str, data: Any = None, **options: Any) -> JobId[Any]:
        """Queues a job of any class, with the options of `NewJob`, and returns its id once it is durable."""
        return self.put_many([NewJob(queue, class_name, data, **options)])[0]

    def put_many(self, jobs: Iterable[NewJob]) -> list[JobId[Any]]:
        """Queues jobs, all or none, and returns their ids in the same order."""
        wanted = fields_of(jobs)
        return [self._id(job) for job in self.place.put(wanted)] if wanted else []

    def id(self, job: str) -> JobId[Any]:
        """The id of a job of this supervisor, to wait for its result, to look at it or to cancel it."""
        return self._id(job)

    def as_completed(self, jobs: Iterable[str], timeout: Optional[float] = None) -> many.Completions[Any]:
        """The ids of these jobs as they end, over few connections."""
        return many.as_completed([self._id(job) for job in jobs], timeout)

    def events(self, *, kind: Union[answers.What, Sequence[answers.What], None] = None, queue: Optional[str] = None,
               job: Optional[str] = None, tag: Optional[str] = None) -> Iterator[answers.PublishedEvent]:
        """What happens from now on. It ends with the supervisor, and raises SupervisorError if it breaks off.

        The subscription holds from the call on.
        """
        at, stream = self.place.at, _Events()
        with asking.one_error(_FOLLOW):
            connection = at.connect(_SILENCE_SECONDS)
        try:
            with asking.one_error(_FOLLOW):
                connection.sendall(stream.request(path("events", kind=kind, queue=queue, job=job, tag=tag), at.headers(),
                                                  at.host))
            connection.settimeout(_SILENCE_SECONDS)
            while not stream.answer.status:
                stream.take(_received(connection))
            stream.check()
        except BaseException:
            connection.close()
            raise

        def told() -> Iterator[answers.PublishedEvent]:
            with connection:
                while True:
                    yield from stream.events()
                    if stream.answer.over:
                        return
                    stream.take(_received(connection))

        return told()


def _received(connection: socket) -> bytes:
    with asking.one_error(_FOLLOW):
        return connection.recv(1 << 16)


async def _areceived(reader: StreamReader) -> bytes:
    import asyncio

    with asking.one_error(_FOLLOW):
        try:
            return await asyncio.wait_for(reader.read(1 << 16), _SILENCE_SECONDS)
        except asyncio.TimeoutError:
            raise OSError("timed out") from None


class AsyncClient(AsyncJobs, AsyncQueues, AsyncService):
    """As `Client`, with coroutines: other tasks of the event loop go on."""

    async def put(self, queue: str, class_name: str, data: Any = None, **options: Any) -> JobId[Any]:
        """Queues a job of any class, with the options of `NewJob`, and returns its id once it is durable."""
        return (await self.put_many([NewJob(queue, class_name, data, **options)]))[0]

    async def put_many(self, jobs: Iterable[NewJob]) -> list[JobId[Any]]:
        """Queues jobs, all or none, and returns their ids in the same order."""
        from ..client.threads import in_thread

        wanted = fields_of(jobs)
        return [self._id(job) for job in await in_thread(self.place.put, wanted)] if wanted else []

    def id(self, job: str) -> JobId[Any]:
        """The id of a job of this supervisor: `await id.aresult()`."""
        return self._id(job)

    def as_completed(self, jobs: Iterable[str], timeout: Optional[float] = None) -> many.Completions[Any]:
        """The ids of these jobs as they end, for ``async for``."""
        return many.as_completed([self._id(job) for job in jobs], timeout)

    async def events(self, *, kind: Union[answers.What, Sequence[answers.What], None] = None, queue: Optional[str] = None,
                     job: Optional[str] = None, tag: Optional[str] = None) -> AsyncIterator[answers.PublishedEvent]:
        """What happens from the first step of the ``async for`` on; as `Client.events`."""
        at, stream = self.place.at, _Events()
        with asking.one_error(_FOLLOW):
            reader, writer = await at.open(_SILENCE_SECONDS)
        try:
            writer.write(stream.request(path("events", kind=kind, queue=queue, job=job, tag=tag), at.headers(), at.host))
            while not stream.answer.over:
                stream.take(await _areceived(reader))
                if stream.answer.status:
                    stream.check()
                    for event in stream.events():
                        yield event
        finally:
            writer.close()


class _Events:
    """The answer with events, of which the bytes come piece by piece."""

    def __init__(self) -> None:
        self.answer = http.Answer()
        self._rest = b""

    def request(self, route: str, headers: str, host: str) -> bytes:
        """What asks for them, as lines."""
        return http.request("GET", route, b"", f"Accept: application/x-ndjson\r\n{headers}", host)

    def take(self, data: bytes) -> None:
        """Takes the next bytes."""
        try:
            self._rest += self.answer.feed(data)
        except http.NoAnswer as error:
            raise SupervisorError(f"the events broke off: {error}") from None

    def check(self) -> None:
        """Raises the refusal, if it is one."""
        if self.answer.status != 200:
            raise SupervisorError(f"no events: answer {self.answer.status}: {self._rest[:300]!r}", self.answer.status)

    def events(self) -> Iterator[answers.PublishedEvent]:
        """Those that have come whole."""
        *whole, self._rest = self._rest.split(b"\n")
        for line in whole:
            if line.strip():
                event: answers.PublishedEvent = json.loads(line)
                yield event
