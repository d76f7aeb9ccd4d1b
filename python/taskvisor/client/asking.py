"""Asks the supervisor over its socket: one request on a connection of its own, and again while it is being replaced."""

from __future__ import annotations

import json
import os
import time

from ..errors import NoSuchJob, SupervisorError
from ..protocol import http
from . import api_socket, stand_in
from .settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any, Optional

#: Pause between two tries while no supervisor is there.
PAUSE_SECONDS = 0.1
#: Bytes to read at a time.
PIECE = 64 * 1024
#: The supervisor says with them that it cannot do it at the moment, or does not know whether it has.
PASSING = (503, 504)


class Nobody(Exception):
    """Nobody listens on the socket: the request was not sent."""


class Busy(Exception):
    """Very many connect, and the supervisor has no room for one more: the request was not sent."""


class Lost(Exception):
    """The request was sent, and no answer came: it may have been carried out."""


class Reply:
    """An answer: its status, and its content as text and as a value."""

    __slots__ = ("status", "text", "value")

    def __init__(self, status: int, text: bytes) -> None:
        self.status = status
        self.text = text
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
        self._end = None if timeout is None else time.monotonic() + timeout
        self._what = f"{what} within {timeout} s"
        self._quiet_since: Optional[float] = None

    def heard(self) -> None:
        """Notes that a supervisor is there."""
        self._quiet_since = None

    def left(self, most: float) -> float:
        """Seconds to wait for the next word, `most` at most; TimeoutError if none are left."""
        left = most if self._end is None else min(most, self._end - time.monotonic())
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

    def next_try(self, why: str, error: Optional[Exception]) -> float:
        """Seconds until the next try. Raises why there was no answer, if there is to be none."""
        hopeless = isinstance(error, Nobody) and nobody_ever(api_socket.socket_path())
        pause = None if hopeless else self.pause()
        if pause is None:
            if isinstance(error, Nobody):
                why += "; start the supervisor, or set TASKVISOR_RUN_DIR to its run directory"
            raise SupervisorError(why)
        return pause


def nobody_ever(path: str) -> bool:
    """Whether no supervisor has ever run there: it leaves its lock."""
    return not os.path.exists(os.path.join(os.path.dirname(path), "lock"))


def connect(path: str, timeout: float) -> socket.socket:
    """A connection to the supervisor; `Nobody` if none listens, `Busy` if it has no room all that time."""
    try:
        return api_socket.connect(path, timeout)
    except OSError as error:
        raise unconnected(path, error) from None


def unconnected(path: str, error: OSError) -> Exception:
    """Why there is no connection."""
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError, NotADirectoryError)):
        return Nobody(f"nobody listens on {path} ({error.strerror})")
    if isinstance(error, BlockingIOError):
        return Busy(f"what listens on {path} takes no more connections: very many wait for it")
    return SupervisorError(f"cannot connect to {path}: {error.strerror or error}")


def once(method: str, route: str, body: bytes = b"", timeout: float = api_socket.PATIENCE_SECONDS) -> Reply:
    """Asks once. Raises `Nobody`, `Busy` or `Lost`."""
    path = api_socket.socket_path()
    answer, pieces = http.Answer(), []
    with connect(path, timeout) as connection:
        try:
            try:
                connection.sendall(http.request(method, route, body))
            except (BrokenPipeError, ConnectionResetError):
                pass  # What refuses a request may not read all of it. The answer is there.
            while not answer.over:
                pieces.append(answer.feed(connection.recv(PIECE)))
        except (OSError, http.NoAnswer) as error:
            raise Lost(f"{path} gave no answer ({error or type(error).__name__})") from None
    return Reply(answer.status, b"".join(pieces))


def ask(method: str, route: str, value: Any = None, *, timeout: Optional[float] = None) -> Any:
    """Asks for something that may be asked twice, over a stop and a start of the supervisor, and returns the value."""
    if stand_in.current.one is not None:
        return stand_in.current.one.ask(method, route, value)
    patience = Patience(timeout)
    body = b"" if value is None else json.dumps(value).encode()
    while True:
        try:
            reply = once(method, route, body, patience.left(api_socket.PATIENCE_SECONDS))
            if reply.is_good:
                return reply.value
            why = reply.reason()
            if reply.status == 404:
                raise NoSuchJob(why, reply.status)
            if reply.status not in PASSING:
                raise SupervisorError(why, reply.status)
            error: Optional[Exception] = None
        except (Nobody, Busy, Lost) as caught:
            why, error = str(caught), caught
        time.sleep(patience.next_try(why, error))
