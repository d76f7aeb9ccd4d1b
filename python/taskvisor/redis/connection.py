"""What a connection to a Redis knows of the call that its thread makes: how long it may take, and whether it was sent."""

from __future__ import annotations

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


#: Limit in seconds for an answer: a connection that is silent for longer is broken.
ANSWER_SECONDS = 5.0
#: Limit in seconds to connect.
CONNECT_SECONDS = 3.0


class _Call(threading.local):
    """The call of this thread."""

    #: Whether the script was sent: if no answer comes, it may have run.
    is_sent = False
    #: When the caller's time is over, by `time.monotonic`.
    end: Optional[float] = None


call: _Call = _Call()


def _at_most(seconds: float) -> float:
    """These seconds, or what is left of the caller's time. Never 0: a socket would not wait at all, which is no timeout."""
    if call.end is None:
        return seconds
    return min(seconds, max(0.001, call.end - time.monotonic()))


class _Bound:
    """A timeout of a connection, within the caller's time; never none, which would be to wait for ever."""

    def __init__(self, default: float) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        # Some versions of redis-py set the public name, others write behind a property.
        self._names = "_most_" + name, "_" + name

    def __get__(self, connection: Any, owner: Optional[type] = None) -> float:
        kept = (vars(connection).get(name) for name in self._names)
        return _at_most(next((seconds for seconds in kept if seconds is not None), self._default))

    def __set__(self, connection: Any, seconds: Optional[float]) -> None:
        setattr(connection, self._names[0], seconds)


def bound(kind: Any) -> Any:
    """This class of redis-py's connections, which goes by `call`."""

    class Bound(kind):  # type: ignore[misc]
        # redis-py reads both when it connects.
        socket_timeout = _Bound(ANSWER_SECONDS)
        socket_connect_timeout = _Bound(CONNECT_SECONDS)

        def send_command(self, *args: Any, **options: Any) -> None:
            # The pool has connected before: an error from here on may come after the server has read the command.
            call.is_sent = call.is_sent or args[0] == "EVALSHA"
            sock = getattr(self, "_sock", None)
            if sock is not None:
                sock.settimeout(self.socket_timeout)
            super().send_command(*args, **options)

    return Bound
