"""What a connection to a Redis knows of the call that its thread makes: how long it may take, and whether it was sent."""

from __future__ import annotations

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


class _Call(threading.local):
    """The call of this thread."""

    #: Whether the script was sent: if no answer comes, it may have run.
    is_sent = False
    #: When the caller's time is over, by `time.monotonic`.
    end: Optional[float] = None


call: _Call = _Call()


def _at_most(seconds: Optional[float]) -> Optional[float]:
    """These seconds, or what is left of the caller's time. Never 0: a socket would not wait at all, which is no timeout."""
    if call.end is None or seconds is None:
        return seconds
    return min(seconds, max(0.001, call.end - time.monotonic()))


class _Bound:
    """A timeout of a connection, within the caller's time."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = "_most_" + name

    def __get__(self, connection: Any, owner: Optional[type] = None) -> Optional[float]:
        return _at_most(getattr(connection, self._name, None))

    def __set__(self, connection: Any, seconds: Optional[float]) -> None:
        setattr(connection, self._name, seconds)


def bound(kind: Any) -> Any:
    """This class of redis-py's connections, which goes by `call`."""

    class Bound(kind):  # type: ignore[misc]
        # redis-py reads both when it connects.
        socket_timeout = _Bound()
        socket_connect_timeout = _Bound()

        def send_command(self, *args: Any, **options: Any) -> None:
            # The pool has connected before: an error from here on may come after the server has read the command.
            call.is_sent = call.is_sent or args[0] == "EVALSHA"
            sock = getattr(self, "_sock", None)
            if sock is not None:
                sock.settimeout(self.socket_timeout)
            super().send_command(*args, **options)

    return Bound
