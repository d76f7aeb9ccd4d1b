"""Knows whether `faulthandler.dump_traceback_later` is armed, which with `exit=True` ends the process in some later job."""

from __future__ import annotations

import faulthandler
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    Arguments = tuple[tuple[Any, ...], dict[str, Any]]

_arm: Any = faulthandler.dump_traceback_later
_cancel: Any = faulthandler.cancel_dump_traceback_later


class _Timer:
    """With what it was armed last, and by which job of an event loop."""

    arguments: Optional[Arguments] = None
    job: Any = None


def watch() -> None:
    """From now on each use of it is seen. Comes before the application is loaded."""
    setattr(faulthandler, "dump_traceback_later", _on_arm)
    setattr(faulthandler, "cancel_dump_traceback_later", _on_cancel)


def armed() -> Optional[Arguments]:
    """With what it was armed last, unless it was canceled."""
    return _Timer.arguments


def arm(arguments: Optional[Arguments]) -> None:
    """Arms it so, or cancels it."""
    if arguments is None:
        _on_cancel()
    else:
        _on_arm(*arguments[0], **arguments[1])


def end_job(job: Any) -> None:
    """The job of an event loop has ended: it is not to end its neighbours."""
    if _Timer.job is job:
        _on_cancel()


def _on_arm(*arguments: Any, **named: Any) -> None:
    _arm(*arguments, **named)
    running_job: Any = sys.modules.get("taskvisor.client.running_job")
    _Timer.arguments, _Timer.job = (arguments, named), running_job.of_task.get() if running_job is not None else None


def _on_cancel() -> None:
    _cancel()
    _Timer.arguments = _Timer.job = None
