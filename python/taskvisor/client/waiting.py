"""Waits for the ends of jobs: one connection for all of them, on which the supervisor tells each end as it comes.

The same rules serve threads (`ends`) and event loops (`aends`); only the reading differs.
"""

from __future__ import annotations

import json
import time

from ..errors import SupervisorError
from ..protocol import http
from . import api_socket, asking, stand_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Iterable, Iterator
    from typing import Optional

#: The supervisor sends something at least every 15 s: after this silence it is asked anew.
_SILENCE_SECONDS = 60.0
#: Most jobs of one request.
_MOST = 100_000


class _Wait:
    """One request for the ends of the jobs that are left, and the lines of its answer."""

    def __init__(self, left: dict[str, None]) -> None:
        jobs = list(left)
        if len(jobs) > _MOST:
            raise ValueError(f"{len(jobs)} jobs to wait for: {_MOST} are the most")
        body = json.dumps({"jobs": jobs, "records": True}).encode()
        self.request = http.request("POST", "/v1/wait", body)
        self.answer = http.Answer()
        self._left = left
        self._rest = b""

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

    def why_over(self) -> str:
        """Why the answer has ended too early, if there may be another soon; else raises what it says."""
        if self.answer.status == 200:
            return "the supervisor has told only some of the ends"
        reply = asking.Reply(self.answer.status, self._rest)
        if reply.status not in asking.PASSING:
            raise SupervisorError(reply.reason(), reply.status)
        return reply.reason()


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


async def _open(timeout: float) -> tuple[StreamReader, StreamWriter]:
    import asyncio

    path, end = api_socket.socket_path(), time.monotonic() + timeout
    while True:
        try:
            return await asyncio.open_unix_connection(sock=api_socket.connect_at_once(path))
        except OSError as error:
            if not isinstance(error, BlockingIOError) or time.monotonic() >= end:
                raise asking.unconnected(path, error) from None
        await asyncio.sleep(api_socket.BETWEEN_SECONDS)


def ends(jobs: Iterable[str], timeout: Optional[float]) -> Iterator[tuple[str, bytes]]:
    """The ends of these jobs, each with its line, as they come. TimeoutError when the time is over."""
    if stand_in.current.one is not None:
        yield from stand_in.current.one.ends(map(str, jobs))
        return
    left = dict.fromkeys(map(str, jobs))
    patience = asking.Patience(timeout, _not_ended(left))
    while left:
        wait = _Wait(left)
        error: Optional[Exception] = None
        try:
            with asking.connect(api_socket.socket_path(), patience.left(_SILENCE_SECONDS)) as connection:
                connection.sendall(wait.request)
                while left and not wait.answer.over:
                    connection.settimeout(patience.left(_SILENCE_SECONDS))
                    found = wait.lines(connection.recv(asking.PIECE))
                    if wait.answer.status == 200:
                        patience.heard()
                    yield from found
            if not left:
                return
            why = wait.why_over()
        except (asking.Nobody, asking.Busy, http.NoAnswer) as caught:
            why, error = str(caught), caught
        except OSError as caught:
            patience.left(_SILENCE_SECONDS)
            why, error = f"lost the supervisor: {caught or type(caught).__name__}", caught
        time.sleep(patience.next_try(why, error))


async def aends(jobs: Iterable[str], timeout: Optional[float]) -> AsyncIterator[tuple[str, bytes]]:
    """As `ends`; other tasks of the event loop go on meanwhile."""
    import asyncio

    if stand_in.current.one is not None:
        for end in stand_in.current.one.ends(map(str, jobs)):
            yield end
        return
    left = dict.fromkeys(map(str, jobs))
    patience = asking.Patience(timeout, _not_ended(left))
    while left:
        wait = _Wait(left)
        error: Optional[Exception] = None
        try:
            reader, writer = await _open(patience.left(_SILENCE_SECONDS))
            try:
                writer.write(wait.request)
                while left and not wait.answer.over:
                    reading = reader.read(asking.PIECE)
                    found = wait.lines(await asyncio.wait_for(reading, patience.left(_SILENCE_SECONDS)))
                    if wait.answer.status == 200:
                        patience.heard()
                    for one in found:
                        yield one
            finally:
                writer.close()
            if not left:
                return
            why = wait.why_over()
        except (asking.Nobody, asking.Busy, http.NoAnswer) as caught:
            why, error = str(caught), caught
        except (OSError, asyncio.TimeoutError) as caught:
            patience.left(_SILENCE_SECONDS)
            why, error = f"lost the supervisor: {caught or type(caught).__name__}", caught
        await asyncio.sleep(patience.next_try(why, error))
