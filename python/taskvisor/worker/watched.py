"""Functions of Python whose calls are noticed: to look after each job at what they change would cost more than that."""

from __future__ import annotations

import functools
import gc
import resource
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Calls:
    """Whether one of these functions may have been called."""

    def __init__(self, module: Any, *names: str) -> None:
        self._module = module
        self._names = names
        #: True as long as nobody watches them.
        self.any: bool = True
        self._are_watched = False

    def watch(self) -> None:
        """From now on each call is seen. Comes before the application is loaded, which may keep the functions."""
        for name in self._names:
            function = getattr(self._module, name, None)
            if function is not None:
                setattr(self._module, name, self._noting(function))
        self._are_watched = True
        self.forget()

    def forget(self) -> None:
        """What was called until now has been looked at."""
        self.any = not self._are_watched

    def _noting(self, function: Any) -> Any:
        @functools.wraps(function)
        def noting(*arguments: Any, **named: Any) -> Any:
            try:
                return function(*arguments, **named)
            finally:
                self.any = True
        return noting


#: The calls that change a limit of a process.
of_limits: Calls = Calls(resource, "setrlimit", "prlimit")
#: The call that sets the descriptor to which a signal writes.
of_wakeup: Calls = Calls(signal, "set_wakeup_fd")
of_freeze: Calls = Calls(gc, "freeze")


def watch() -> None:
    """Watches all of them."""
    for calls in (of_limits, of_wakeup, of_freeze):
        calls.watch()
