"""Waits for the ends of jobs: on few connections for all of them the supervisor tells each end as it comes.

The same rules serve threads (`ends`) and event loops (`aends`); only the reading differs.
"""

from __future__ import annotations

import json
import re
import selectors
import time
from contextlib import ExitStack

from ..errors import SupervisorError
from ..protocol import http
from . import asking, endpoint, stand_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future, StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Iterable, Iterator
    from typing import Optional

#: The supervisor sends something at least every 15 s: after this silence the client asks again.
_SILENCE_SECONDS = 60.0
#: Most jobs of one request. Where the broker has to be asked for each job, the supervisor takes fewer, and says how many.
_MOST = 100_000
#: Most connections at a time: the supervisor has a limited number, for all that wait. Jobs beyond them are asked for later.
_CONNECTIONS = 16


class _TooMany(Exception):
    """The supervisor refuses a request with so many jobs."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most


class _Wait:
    """One request for the ends of these jobs, and the lines of its answer."""

    def __init__(self, jobs: list[str]) -> None:
        self.answer = http.Answer()
        self._left = dict.fromkeys(jobs)
        self._count = len(jobs)
        self._rest = b""

    def request(self, at: endpoint.Endpoint) -> bytes:
        """What asks for them there."""
        body = json.dumps({"jobs": list(self._left), "records": True}).encode()
        return http.request("POST", "/v1/wait", body, at.headers(), at.host)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be read."""
        return not self._left or self.answer.over

    def lines(self, data: bytes) -> list[tuple[str, bytes]]:
        """The jobs that have ended, each with its line. Raises NoAnswer if the answer has broken off."""
        rest = self._rest + self.answer.feed(data)
        if self.answer.status and self.answer.status != 200:
            self._rest = rest
            return []
        *whole, self._rest = rest.split(b"\n")
        found = []
        for line in whole:
            if line.strip():
                job = _job_of(line)
                if job in self._left:
                    del self._left[job]
                    found.append((job, line))
        return found

    def why_over(self) -> Optional[str]:
        """Why the answer has ended too early, if it has, and there may be another soon; else raises what it says."""
        if not self._left:
            return None
        if self.answer.status == 200:
            return "the supervisor has told only some of the ends"
        reply = asking.Reply(self.answer.status, self._rest)
        if reply.status in asking.PASSING:
            return reply.reason()
        limit = re.search(r"(\d+) are the most", reply.reason())
        if limit is not None and 0 < int(limit.group(1)) < self._count:
            raise _TooMany(int(limit.group(1)))
        raise SupervisorError(reply.reason(), reply.status)


class _Round:
    """Asks once for the jobs that are left: by as many requests as it takes, each on a connection of its own."""

    def __init__(self, left: dict[str, None], most: int, patience: asking.Patience) -> None:
        jobs = list(left)
        #: The requests.
        self.waits = [_Wait(jobs[at:at + most]) for at in range(0, min(len(jobs), most * _CONNECTIONS), most)]
        self._left = left
        self._before = len(jobs)
        self._patience = patience
        self._why: Optional[str] = None

    def take(self, wait: _Wait, data: bytes) -> list[tuple[str, bytes]]:
        """The jobs that have ended by what one connection has brought, each with its line."""
        found = wait.lines(data)
        if wait.answer.status == 200:
            self._patience.heard()
        for job, _ in found:
            del self._left[job]
        if wait.is_over:
            self._why = wait.why_over() or self._why
        return found

    @property
    def trouble(self) -> Optional[str]:
        """Why it has brought nothing. After one that has, the next may come at once."""
        return self._why if len(self._left) == self._before else None


def _not_ended(left: dict[str, None]) -> str:
    """What has not happened when the time is over.

    >>> _not_ended({"7": None}), _not_ended({"7": None, "8": None})
    ('job 7 has not ended', '2 jobs have not all ended')
    """
    return f"job {next(iter(left))} has not ended" if len(left) == 1 else f"{len(left)} jobs have not all ended"


def _job_of(line: bytes) -> str:
    # The id stands first. Most of the line is the record, which may never be looked at.
    scanned, _ = json.JSONDecoder().raw_decode(line.decode(), len('{"job":'))
    return str(scanned)


def ends(jobs: Iterable[str], timeout: Optional[float],
         place: Optional[stand_in.StandIn] = None) -> Iterator[tuple[str, bytes]]:
    """The ends of these jobs, each with its line, as they come. TimeoutError when the time is over."""
    place = place or stand_in.place()
    return ends_of_supervisor(jobs, timeout) if place is None else place.ends(map(str, jobs), timeout)


def aends(jobs: Iterable[str], timeout: Optional[float],
          place: Optional[stand_in.StandIn] = None) -> AsyncIterator[tuple[str, bytes]]:
    """As `ends`; other tasks of the event loop go on meanwhile."""
    place = place or stand_in.place()
    return aends_of_supervisor(jobs, timeout) if place is None else place.aends(map(str, jobs), timeout)


def ends_of_supervisor(jobs: Iterable[str], timeout: Optional[float],
                       at: Optional[endpoint.Endpoint] = None) -> Iterator[tuple[str, bytes]]:
    """As `ends`, always of a supervisor: `at` that place, or the current one."""
    left, most = dict.fromkeys(map(str, jobs)), _MOST
    patience = asking.Patience(timeout, _not_ended(left))
    while left:
        turn, here = _Round(left, most, patience), at or endpoint.current()
        error: Optional[Exception] = None
        try:
            yield from _answers(turn, patience, here)
            why = turn.trouble
        except _TooMany as caught:
            most, why = caught.most, None
        except (endpoint.Nobody, endpoint.Busy, http.NoAnswer) as caught:
            why, error = str(caught), caught
        except OSError as caught:
            patience.left(_SILENCE_SECONDS)
            why, error = f"lost the supervisor: {caught or type(caught).__name__}", caught
        if why is not None:
            time.sleep(patience.next_try(why, error, here))


def _answers(turn: _Round, patience: asking.Patience, at: endpoint.Endpoint) -> Iterator[tuple[str, bytes]]:
    """The ends that one round brings."""
    with ExitStack() as open_ones:
        sockets = open_ones.enter_context(selectors.DefaultSelector())
        for wait in turn.waits:
            connection = at.connect(patience.left(_SILENCE_SECONDS))
            sockets.register(open_ones.enter_context(connection), selectors.EVENT_READ, (wait, connection))
            connection.sendall(wait.request(at))
        while sockets.get_map():
            ready = sockets.select(patience.left(_SILENCE_SECONDS))
            if not ready:
                raise OSError("it is silent")
            for wait, connection in [key.data for key, _ in ready]:
                found = turn.take(wait, connection.recv(asking.PIECE))
                if wait.is_over:
                    sockets.unregister(connection)
                    connection.close()
                yield from found


async def aends_of_supervisor(jobs: Iterable[str], timeout: Optional[float],
                              at: Optional[endpoint.Endpoint] = None) -> AsyncIterator[tuple[str, bytes]]:
    """As `ends_of_supervisor`; other tasks of the event loop go on meanwhile."""
    import asyncio

    asking.event_loop()
    left, most = dict.fromkeys(map(str, jobs)), _MOST
    patience = asking.Patience(timeout, _not_ended(left))
    while left:
        turn, here = _Round(left, most, patience), at or endpoint.current()
        error: Optional[Exception] = None
        reading: dict[Future[bytes], tuple[_Wait, StreamReader, StreamWriter]] = {}
        try:
            try:
                for wait in turn.waits:
                    reader, writer = await here.open(patience.left(_SILENCE_SECONDS))
                    reading[asyncio.ensure_future(reader.read(asking.PIECE))] = wait, reader, writer
                    writer.write(wait.request(here))
                while reading:
                    ready, _ = await asyncio.wait(list(reading), timeout=patience.left(_SILENCE_SECONDS),
                                                  return_when=asyncio.FIRST_COMPLETED)
                    if not ready:
                        raise OSError("it is silent")
                    for one in ready:
                        wait, reader, writer = reading[one]
                        found = turn.take(wait, one.result())
                        del reading[one]
                        if wait.is_over:
                            writer.close()
                        else:
                            reading[asyncio.ensure_future(reader.read(asking.PIECE))] = wait, reader, writer
                        for end in found:
                            yield end
            finally:
                for one, (_, _, writer) in reading.items():
                    if not one.cancel() and not one.cancelled():
                        one.exception()  # Looked at, so that asyncio does not log it.
                    writer.close()
            why = turn.trouble
        except _TooMany as caught:
            most, why = caught.most, None
        except (endpoint.Nobody, endpoint.Busy, http.NoAnswer) as caught:
            why, error = str(caught), caught
        except OSError as caught:
            patience.left(_SILENCE_SECONDS)
            why, error = f"lost the supervisor: {caught or type(caught).__name__}", caught
        if why is not None:
            await asyncio.sleep(patience.next_try(why, error, here))
