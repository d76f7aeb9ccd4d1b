"""HTTP/1.1 as far as the supervisor speaks it: makes requests and reads answers as bytes. It opens no connection.

`http.client` would cost a program that puts one job more time than the put.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

#: The longest head of an answer, or line of a chunk's size.
_LONGEST_HEAD = 64 * 1024


class NoAnswer(Exception):
    """The bytes received are not an HTTP answer, or only the beginning of one."""


def quoted(job: str) -> str:
    """An id as a part of a path.

    >>> quoted("a/b c"), quoted("0199-x")
    ('a%2Fb%20c', '0199-x')
    """
    plain = all(letter.isalnum() and letter.isascii() or letter in "-_" for letter in job)
    if plain:
        return str(job)
    from urllib.parse import quote

    return quote(job, safe="").replace(".", "%2E")


def request(method: str, path: str, body: bytes = b"", headers: str = "", host: str = "localhost") -> bytes:
    r"""A request on a connection of its own.

    >>> request("GET", "/v1").split(b"\r\n")[0]
    b'GET /v1 HTTP/1.1'
    """
    head = (f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{headers}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n")
    return head.encode() + body


class Answer:
    r"""An answer, of which the bytes come piece by piece.

    >>> answer = Answer()
    >>> answer.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"), answer.status, answer.over
    (b'hel', 200, False)
    >>> answer.feed(b"lo"), answer.over
    (b'lo', True)
    """

    __slots__ = ("_buffer", "_chunked", "_left", "_state", "cut", "over", "status")

    def __init__(self) -> None:
        #: The HTTP status, 0 until it has come.
        self.status: int = 0
        #: If it is that of a search that was cut: after which job it goes on, and how many it has looked at.
        self.cut: Optional[tuple[str, int]] = None
        #: Whether all of it has come.
        self.over: bool = False
        self._buffer = b""
        self._state = self._head
        self._chunked = False
        #: Bytes of the body, or of the chunk, that have not come; None = until the connection ends.
        self._left: Optional[int] = None

    def feed(self, data: bytes) -> bytes:
        """Takes the next bytes, none at the end of the connection, and returns those of the body."""
        if not data and not self.over:
            if self._state != self._body or self._chunked or self._left is not None:
                raise NoAnswer("the connection ended before the answer did" if self._buffer or self.status
                               else "the connection ended without an answer")
            self.over = True
        self._buffer += data
        found = []
        while not self.over:
            piece = self._state()
            if piece is None:
                break
            if piece:
                found.append(piece)
        return b"".join(found)

    def _line(self, end: bytes) -> Optional[bytes]:
        line, mark, rest = self._buffer.partition(end)
        if not mark:
            if len(self._buffer) > _LONGEST_HEAD:
                raise NoAnswer(f"this is no HTTP: {self._buffer[:80]!r}")
            return None
        self._buffer = rest
        return line

    def _head(self) -> Optional[bytes]:
        head = self._line(b"\r\n\r\n")
        if head is None:
            if self._buffer[:5] != b"HTTP/"[:len(self._buffer)]:
                raise NoAnswer(f"this is no HTTP: {self._buffer[:80]!r}")
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ", 2)
        if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdecimal():
            raise NoAnswer(f"this is no HTTP: {first[:80]!r}")
        self.status = int(words[1])
        named = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if "taskvisor-next" in named:
            after = named["taskvisor-next"].encode("latin-1").decode("utf-8", "replace")
            self.cut = (after, int(named.get("taskvisor-looked", 0)))
        self._chunked = named.get("transfer-encoding", "").lower() == "chunked"
        if not self._chunked and named.get("content-length", "").isdecimal():
            self._left = int(named["content-length"])
            self.over = self._left == 0
        self._state = self._size if self._chunked else self._body
        return b""

    def _size(self) -> Optional[bytes]:
        line = self._line(b"\r\n")
        if line is None:
            return None
        try:
            self._left = int(line.partition(b";")[0], 16)
        except ValueError:
            raise NoAnswer(f"this is no size of a chunk: {line[:80]!r}") from None
        self._state = self._body if self._left else self._trailer
        return b""

    def _trailer(self) -> Optional[bytes]:
        line = self._line(b"\r\n")
        if line is None:
            return None
        self.over = not line
        return b""

    def _end_of_chunk(self) -> Optional[bytes]:
        if len(self._buffer) < 2:
            return None
        self._buffer = self._buffer[2:]
        self._state = self._size
        return b""

    def _body(self) -> Optional[bytes]:
        if not self._buffer:
            return None
        if self._left is None:
            piece, self._buffer = self._buffer, b""
            return piece
        piece, self._buffer = self._buffer[:self._left], self._buffer[self._left:]
        self._left -= len(piece)
        if not self._left:
            self.over = not self._chunked
            self._state = self._end_of_chunk
        return piece
