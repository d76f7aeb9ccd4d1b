"""What a connection to a Redis notes of the call that its thread makes."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Call(threading.local):
    """The call of this thread."""

    #: Whether the script was sent: if no answer comes, it may have run.
    is_sent = False


call: _Call = _Call()


def noting(kind: Any) -> Any:
    """This class of redis-py's connections, with notes in `call`."""

    class Noting(kind):  # type: ignore[misc]
        def send_command(self, *args: Any, **options: Any) -> None:
            # The pool has connected before: an error from here on may come after the server has read the command.
            call.is_sent = call.is_sent or args[0] == "EVALSHA"
            super().send_command(*args, **options)

    return Noting
