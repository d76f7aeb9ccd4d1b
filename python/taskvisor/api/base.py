"""What the clients share: where the supervisor is, and how a request is made."""

from __future__ import annotations

from ..client import asking, endpoint
from ..client.putting import of_place
from ..protocol.http import quoted
from .place import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Optional

    from ..client.job_id import JobId


class Base:
    """Where a client asks, and for how long."""

    def __init__(self, url: Optional[str] = None, *, token: Optional[str] = None, token_file: Optional[str] = None,
                 socket: Optional[str] = None, timeout: Optional[float] = None) -> None:
        if url is not None and socket is not None:
            raise ValueError("a supervisor is at a url or at a socket, not at both")
        at: endpoint.Endpoint = endpoint.current() if url is None else endpoint.Tcp(url, token, token_file)
        #: Where jobs are put, for `options(client=...)`.
        self.place: Supervisor = Supervisor(endpoint.Unix(socket) if socket is not None else at,
                                            url is not None or socket is not None)
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.place.at.name}>"

    def _question(self, method: str, route: str, value: Any, again: bool,
                  headers: Optional[Mapping[str, str]] = None, of_this: bool = False) -> asking.Question:
        return asking.Question(method, route, value, self._timeout, again, headers, of_this)

    def _id(self, job: str) -> JobId[Any]:
        """The id of a job of this supervisor: what it does goes there."""
        return of_place(self.place, job)


class Asking(Base):
    """Asks, and waits for the answer."""

    def _ask(self, method: str, route: str, value: Any = None, again: bool = True,
             headers: Optional[Mapping[str, str]] = None, of_this: bool = False) -> Any:
        return asking.reply_of(self._question(method, route, value, again, headers, of_this), self.place.at).value

    def _is_good(self, route: str) -> bool:
        question, at = self._question("GET", route, None, True), self.place.at
        with asking.one_error("failed to ask the supervisor", question):
            return asking.once("GET", route, timeout=question.left(), at=at).is_good

    def _reply(self, route: str) -> asking.Reply:
        return asking.reply_of(self._question("GET", route, None, True), self.place.at)

    def _text(self, route: str) -> str:
        reply = asking.reply_of(self._question("GET", route, None, True), self.place.at)
        return reply.text.decode("utf-8", "replace")


class AsyncAsking(Base):
    """Asks; other tasks of the event loop go on until there is an answer."""

    async def _ask(self, method: str, route: str, value: Any = None, again: bool = True,
                   headers: Optional[Mapping[str, str]] = None, of_this: bool = False) -> Any:
        return (await asking.areply_of(self._question(method, route, value, again, headers, of_this), self.place.at)).value

    async def _is_good(self, route: str) -> bool:
        question = self._question("GET", route, None, True)
        with asking.one_error("failed to ask the supervisor", question):
            return (await asking.aonce(question, self.place.at)).is_good

    async def _reply(self, route: str) -> asking.Reply:
        return await asking.areply_of(self._question("GET", route, None, True), self.place.at)

    async def _text(self, route: str) -> str:
        reply = await asking.areply_of(self._question("GET", route, None, True), self.place.at)
        return reply.text.decode("utf-8", "replace")


def given(**values: Any) -> dict[str, Any]:
    """Those of the values that are given.

    >>> given(a=1, b=None)
    {'a': 1}
    """
    return {name.rstrip("_"): value for name, value in values.items() if value is not None}


def path(*parts: str, **query: Any) -> str:
    """A route with its parts and its query.

    >>> path("queues", "a/b", "stats", day="2026-11-21"), path("jobs", state=["failed", "held"], tracked=True, tag=None)
    ('/v1/queues/a%2Fb/stats?day=2026-11-21', '/v1/jobs?state=failed%2Cheld&tracked=true')
    """
    route = "/v1/" + "/".join(map(quoted, parts))
    wanted = given(**query)
    if not wanted:
        return route
    from urllib.parse import urlencode

    return route + "?" + urlencode({name: _word(value) for name, value in wanted.items()})


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else ",".join(value)
