"""Asks the supervisor: one request on a connection of its own, and again while it is being replaced."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager

from ..errors import NoSuchJob, SupervisorError
from ..protocol import http
from . import api_socket, endpoint, stand_in
from .endpoint import Busy, Nobody
from .settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Optional

#: Pause between two tries while no supervisor is there.
PAUSE_SECONDS = 0.1
#: Bytes to read at a time.
PIECE = 64 * 1024
#: The supervisor says with them that it cannot do it at the moment, or does not know whether it has.
PASSING = (503, 504)


class Lost(Exception):
    """The request was sent, and no answer came: it may have been carried out."""


class Reply:
    """An answer: its status, and its content as text and as a value."""

    __slots__ = ("cut", "status", "text", "value")

    def __init__(self, status: int, text: bytes, cut: Optional[tuple[str, int]] = None) -> None:
        self.status: int = status
        #: Where a search was cut: see `http.Answer`.
        self.cut: Optional[tuple[str, int]] = cut
        self.text: bytes = text
        try:
            self.value: Any = json.loads(text)
        except ValueError:
            self.value = None

    @property
    def is_good(self) -> bool:
        """Whether it was done."""
        return 200 <= self.status < 300

    def reason(self) -> str:
        """Why it was not done, and what to do.

        >>> Reply(409, b'{"error": "no", "hint": "ask"}').reason(), Reply(200, b"<html>").reason()
        ('no (hint: ask)', "answer 200: b'<html>'")
        """
        value = self.value if isinstance(self.value, dict) else {}
        if "error" not in value:
            return f"answer {self.status}: {self.text[:200]!r}"
        return f"{value['error']} (hint: {value['hint']})" if value.get("hint") else str(value["error"])


class Patience:
    """How long to go on: until a deadline, and for a while without a word of a supervisor."""

    def __init__(self, timeout: Optional[float] = None, what: str = "the supervisor has not answered") -> None:
        #: When the time is over, by `time.monotonic`.
        self.end: Optional[float] = None if timeout is None else time.monotonic() + timeout
        self._what = f"{what} within {timeout if timeout is None else round(timeout, 3)} s"
        self._quiet_since: Optional[float] = None

    def heard(self) -> None:
        """Notes that a supervisor is there."""
        self._quiet_since = None

    def left(self, most: float) -> float:
        """Seconds to wait for the next word, `most` at most; TimeoutError if none are left."""
        left = most if self.end is None else min(most, self.end - time.monotonic())
        if left <= 0:
            raise TimeoutError(self._what)
        return left

    def pause(self) -> Optional[float]:
        """Seconds to wait before the next try; None if there is to be none. TimeoutError if the time is over."""
        now = time.monotonic()
        if self._quiet_since is None:
            self._quiet_since = now
        if now - self._quiet_since >= settings.patience:
            return None
        return self.left(PAUSE_SECONDS)

    def next_try(self, why: str, error: Optional[Exception], at: endpoint.Endpoint) -> float:
        """Seconds until the next try. Raises why there was no answer, if there is to be none."""
        hopeless = isinstance(error, Nobody) and at.nobody_ever()
        pause = None if hopeless else self.pause()
        if pause is None:
            if isinstance(error, Nobody):
                why += at.hint
            raise SupervisorError(why)
        return pause


def once(method: str, route: str, body: bytes = b"", timeout: float = api_socket.PATIENCE_SECONDS,
         at: Optional[endpoint.Endpoint] = None, headers: str = "") -> Reply:
    """Asks once, `at` the supervisor there, or the current one. Raises `Nobody`, `Busy` or `Lost`."""
    place = at or endpoint.current()
    asked = http.request(method, route, body, place.headers() + headers, place.host)
    answer, pieces = http.Answer(), []
    with place.connect(timeout) as connection:
        try:
            try:
                connection.sendall(asked)
            except (BrokenPipeError, ConnectionResetError):
                pass  # What refuses a request may not read all of it. The answer is there.
            while not answer.over:
                pieces.append(answer.feed(connection.recv(PIECE)))
        except (OSError, http.NoAnswer) as error:
            raise Lost(f"{place.name} gave no answer ({error or type(error).__name__})") from None
    return Reply(answer.status, b"".join(pieces), answer.cut)


def ask(method: str, route: str, value: Any = None, *, timeout: Optional[float] = None) -> Any:
    """Asks for something that may be asked twice, over a stop and a start of the supervisor, and returns the value."""
    place = stand_in.place()
    if place is not None:
        return place.ask(method, route, value, timeout)
    return ask_supervisor(method, route, value, timeout)


def ask_supervisor(method: str, route: str, value: Any = None, timeout: Optional[float] = None,
                   at: Optional[endpoint.Endpoint] = None) -> Any:
    """As `ask`, always of a supervisor: `at` that place, or the current one."""
    return reply_of(Question(method, route, value, timeout), at).value


class Question:
    """Something that is asked until there is an answer.

    With `again` false it is not asked twice if it may have been done; with `of_this` it is for the supervisor that runs now,
    and not for the next one.
    """

    def __init__(self, method: str, route: str, value: Any = None, timeout: Optional[float] = None,
                 again: bool = True, headers: Optional[Mapping[str, str]] = None, of_this: bool = False) -> None:
        self.method = method
        self.route = route
        self.headers: str = "".join(f"{name}: {_line(text)}\r\n" for name, text in (headers or {}).items())
        self.body: bytes = b"" if value is None else json.dumps(value).encode()
        self._patience = Patience(timeout)
        self._again = again
        self._of_this = of_this

    def left(self) -> float:
        """Seconds for the next try; TimeoutError if none are left."""
        return self._patience.left(api_socket.PATIENCE_SECONDS)

    def answered(self, reply: Reply) -> bool:
        """Whether it was done. False if it is to be asked again; raises why it is not."""
        if not reply.is_good and (reply.status not in PASSING or reply.status != 503 and not self._again):
            raise refusal(self.route, reply.reason(), reply.status)
        return reply.is_good

    def pause(self, at: endpoint.Endpoint, reply: Optional[Reply], error: Optional[Exception]) -> float:
        """Seconds until the next try. Raises why there is none."""
        if isinstance(error, Lost) and not self._again:
            raise SupervisorError(f"{error}; it may have been carried out, and is not asked twice")
        if isinstance(error, Nobody) and self._of_this:
            raise SupervisorError(f"{error}{at.hint}")
        return self._patience.next_try(str(error) if reply is None else reply.reason(), error, at)


def reply_of(question: Question, at: Optional[endpoint.Endpoint] = None) -> Reply:
    """The answer to a question."""
    while True:
        place, reply = at or endpoint.current(), None
        error: Optional[Exception] = None
        try:
            reply = once(question.method, question.route, question.body, question.left(), place, question.headers)
            if question.answered(reply):
                return reply
        except (Nobody, Busy, Lost) as caught:
            error = caught
        time.sleep(question.pause(place, reply, error))


def event_loop() -> Any:
    """The event loop that runs this coroutine; a RuntimeError that says what to do in one of another kind."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("no event loop of asyncio runs here, for which the coroutines of taskvisor are; in trio call the "
                           "others in a thread: await trio.to_thread.run_sync(send.put, ...)") from None


async def areply_of(question: Question, at: Optional[endpoint.Endpoint] = None) -> Reply:
    """As `reply_of`; other tasks of the event loop go on meanwhile."""
    import asyncio

    event_loop()
    while True:
        place, reply = at or endpoint.current(), None
        error: Optional[Exception] = None
        try:
            reply = await aonce(question, place)
            if question.answered(reply):
                return reply
        except (Nobody, Busy, Lost) as caught:
            error = caught
        await asyncio.sleep(question.pause(place, reply, error))


async def aonce(question: Question, at: endpoint.Endpoint) -> Reply:
    """As `once`; other tasks of the event loop go on meanwhile."""
    import asyncio

    asked = http.request(question.method, question.route, question.body, at.headers() + question.headers, at.host)
    answer, pieces = http.Answer(), []
    reader, writer = await at.open(question.left())
    try:
        writer.write(asked)
        while not answer.over:
            pieces.append(answer.feed(await asyncio.wait_for(reader.read(PIECE), question.left())))
    except (OSError, asyncio.TimeoutError, http.NoAnswer) as error:
        raise Lost(f"{at.name} gave no answer ({error or type(error).__name__})") from None
    finally:
        writer.close()
    return Reply(answer.status, b"".join(pieces), answer.cut)


@contextmanager
def one_error(what: str, question: Optional[Question] = None) -> Iterator[None]:
    """Turns what a single try raises into SupervisorError, or TimeoutError where the question's time is over."""
    try:
        yield
    except (Nobody, Busy, Lost, OSError) as error:
        if question is not None:
            question.left()
        raise SupervisorError(f"{what}: {error or type(error).__name__}") from None


def _line(text: str) -> str:
    if "\r" in text or "\n" in text:
        raise ValueError(f"a header is one line, not {text!r}")
    return text


def refusal(route: str, why: str, status: int) -> SupervisorError:
    """The exception for a refusal: `NoSuchJob` only where the route is about a job."""
    is_of_job = status == 404 and (route.startswith("/v1/jobs/") or "no job" in why)
    return (NoSuchJob if is_of_job else SupervisorError)(why, status)
