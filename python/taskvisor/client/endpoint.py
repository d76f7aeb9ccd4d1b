"""Where a supervisor answers: its socket on this machine, or an address elsewhere, with a token."""

from __future__ import annotations

import os
import socket
import time

from ..errors import SupervisorError
from . import api_socket
from .settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from typing import Any, Optional, Protocol
else:
    Protocol = object


class Nobody(Exception):
    """Nobody listens there: the request was not sent."""


class Busy(Exception):
    """Very many connect, and the supervisor has no room for one more: the request was not sent."""


class Endpoint(Protocol):
    """What takes connections of clients of the API."""

    #: What to call it in messages.
    name: str
    #: The header `Host` of requests.
    host: str
    #: What to do if nobody listens there.
    hint: str

    def headers(self) -> str:
        """Further headers of a request: lines, or nothing."""

    def connect(self, timeout: float) -> socket.socket:
        """A connection; `Nobody` if none listens, `Busy` if there is no room all that time."""

    async def open(self, timeout: float) -> tuple[StreamReader, StreamWriter]:
        """As `connect`; other tasks of the event loop go on meanwhile."""

    def nobody_ever(self) -> bool:
        """Whether no supervisor has ever been there, so that it is no use to wait for one."""


class Unix:
    """The socket of a supervisor on this machine."""

    host = "localhost"
    hint = "; start the supervisor, or set TASKVISOR_RUN_DIR to its run directory"

    def __init__(self, path: str) -> None:
        self.path: str = path
        self.name: str = path

    def headers(self) -> str:
        """None: the kernel says who connects."""
        return ""

    def connect(self, timeout: float) -> socket.socket:
        """A connection to the socket."""
        try:
            return api_socket.connect(self.path, timeout)
        except OSError as error:
            raise self._unconnected(error) from None

    async def open(self, timeout: float) -> tuple[StreamReader, StreamWriter]:
        """As `connect`, in an event loop."""
        import asyncio

        end = time.monotonic() + timeout
        while True:
            try:
                return await asyncio.open_unix_connection(sock=api_socket.connect_at_once(self.path))
            except OSError as error:
                if not isinstance(error, BlockingIOError) or time.monotonic() >= end:
                    raise self._unconnected(error) from None
            await asyncio.sleep(api_socket.BETWEEN_SECONDS)

    def nobody_ever(self) -> bool:
        """Whether no supervisor has ever run there: it leaves its lock."""
        return not os.path.exists(os.path.join(os.path.dirname(self.path), "lock"))

    def is_kept(self) -> bool:
        """Whether a keeper lives there, which starts a supervisor again: it holds the lock."""
        import fcntl

        try:
            with open(os.path.join(os.path.dirname(self.path), "lock"), "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def _unconnected(self, error: OSError) -> Exception:
        if isinstance(error, (FileNotFoundError, ConnectionRefusedError, NotADirectoryError)):
            return Nobody(f"nobody listens on {self.path} ({error.strerror})")
        if isinstance(error, BlockingIOError):
            return Busy(f"what listens on {self.path} takes no more connections: very many wait for it")
        return SupervisorError(f"cannot connect to {self.path}: {error.strerror or error}")


class Tcp:
    """A supervisor at ``http://HOST:PORT``, or behind a proxy at ``https://HOST``, with the token of its API.

    >>> Tcp("http://127.0.0.1:9180", "secret").host
    '127.0.0.1:9180'
    """

    hint = "; see that the supervisor runs with api.listen, and that this is its address"

    def __init__(self, url: str, token: Optional[str] = None, token_file: Optional[str] = None) -> None:
        from urllib.parse import urlsplit

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.path.strip("/") \
                or parts.query or parts.fragment:
            raise SupervisorError(_no_address(url))
        self.name = url
        self.host: str = parts.netloc
        self._address = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        self._is_tls = parts.scheme == "https"
        self._token = token
        self._token_file = token_file

    def headers(self) -> str:
        """The token. A file is read each time: it may be replaced."""
        token = self._token
        if token is None and self._token_file is not None:
            token = _token_of(self._token_file)
        if not token:
            raise SupervisorError(f"no token for {self.name}: give token= or token_file=, or set TASKVISOR_TOKEN_FILE")
        if not (token.isascii() if hasattr(token, "isascii") else all(letter < "\x7f" for letter in token)) \
                or any(letter <= " " for letter in token):
            raise SupervisorError(f"the token for {self.name} holds blanks or other letters that a token has not")
        return f"Authorization: Bearer {token}\r\n"

    def connect(self, timeout: float) -> socket.socket:
        """A connection to the address."""
        try:
            connection = socket.create_connection(self._address, timeout)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._context().wrap_socket(connection, server_hostname=self._address[0]) if self._is_tls else connection
        except OSError as error:
            raise self._unconnected(error) from None

    async def open(self, timeout: float) -> tuple[StreamReader, StreamWriter]:
        """As `connect`, in an event loop."""
        import asyncio

        given = {"ssl": self._context()} if self._is_tls else {}
        try:
            return await asyncio.wait_for(asyncio.open_connection(*self._address, **given), timeout)
        except asyncio.TimeoutError:
            raise Nobody(f"{self.name} does not answer within {timeout:g} s") from None
        except OSError as error:
            raise self._unconnected(error) from None

    def nobody_ever(self) -> bool:
        """False: what was there before cannot be known from here."""
        return False

    def _unconnected(self, error: OSError) -> Exception:
        if isinstance(error, socket.gaierror):
            return SupervisorError(f"cannot connect to {self.name}: {self._address[0]} is not known ({error.strerror})")
        if isinstance(error, (ConnectionError, socket.timeout)) or not error.errno:
            return Nobody(f"nobody answers at {self.name} ({error.strerror or error})")
        return SupervisorError(f"cannot connect to {self.name}: {error.strerror or error}")

    def _context(self) -> Any:
        import ssl

        return ssl.create_default_context()


def _no_address(url: str) -> str:
    """Why this is not the address of a supervisor. What may be a password is not shown.

    >>> _no_address("redis://:secret@h/0")
    "not the address of a supervisor: 'redis://h/0'; jobs in a Redis are reached straight by taskvisor.redis.RedisClient"
    """
    from ..protocol.redis_address import shown

    is_redis = url.partition("://")[0].rpartition("+")[2] in ("redis", "rediss", "valkey", "valkeys", "unix", "sentinel")
    what = "jobs in a Redis are reached straight by taskvisor.redis.RedisClient" if is_redis else \
        "it is http://HOST:PORT, or https:// of a proxy"
    return f"not the address of a supervisor: {shown(url)!r}; {what}"


def _token_of(path: str) -> str:
    """The token in a file, which nobody else may read or change."""
    try:
        with open(path, encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read().strip()
    except (OSError, ValueError) as error:
        raise SupervisorError(f"cannot read the token in {path}: {getattr(error, 'strerror', None) or error}") from None
    if mode & 0o037:
        raise SupervisorError(f"others may read or change the token in {path}: give it the mode 0600 or 0640")
    return token


def current() -> Endpoint:
    """The supervisor that `configure` or the environment names, else that of this user here."""
    if settings.socket is not None:
        return Unix(settings.socket)
    if settings.url is not None:
        return Tcp(settings.url, settings.token, settings.token_file)
    given = os.environ.get
    url = given("TASKVISOR_URL")
    # In a job TASKVISOR_SOCKET names its own supervisor, as for the commands of the program.
    if url and not given("TASKVISOR_SOCKET"):
        return Tcp(url, given("TASKVISOR_API_TOKEN") or None, given("TASKVISOR_TOKEN_FILE") or None)
    return Unix(api_socket.socket_path())
