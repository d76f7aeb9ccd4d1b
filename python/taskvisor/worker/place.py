"""Shows in a job's log where its code was when the job was asked to end.

Only frames of the job's code are shown, never those of this package.
"""

from __future__ import annotations

import os
import traceback
from itertools import dropwhile, takewhile

from ..client import calling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Optional, TextIO

#: The file of `calling`, as frames name it.
_CALLING = calling.call.__code__.co_filename
#: The directory of the package: its frames are left out.
PACKAGE = os.path.dirname(os.path.dirname(_CALLING)) + os.sep
#: In characters. A longer trace keeps its end.
LONGEST_TRACE = 128 * 1024


def describe_place(error: BaseException, stack: traceback.StackSummary) -> str:
    """Where a job was when it was asked to end: the frames of its own code, and of code that it called.

    What this package called for the job is left out, and so is what it called before it came to the job's code. The stack
    may come without its lines: a file is read only for a frame that is shown.
    """
    calls = [index for index, entry in enumerate(stack) if entry.filename == _CALLING]
    shown = [entry for entry in stack[calls[0]:calls[-1]] if not is_ours(entry)] if calls else []
    inner = dropwhile(is_ours, stack[calls[-1] + 1:] if calls else [])
    shown += takewhile(lambda entry: not is_ours(entry), inner)
    lines = "".join(traceback.StackSummary.from_list(shown).format()) or "  outside of its own code\n"
    return f"taskvisor.worker: {type(error).__name__}: {error}. The job was here:\n{lines}"


def is_ours(entry: traceback.FrameSummary) -> bool:
    """Whether a frame belongs to this package."""
    return entry.filename.startswith(PACKAGE)


def report_place(error: BaseException, frame: FrameType) -> None:
    """Writes to stderr where the job is, past `sys.stderr`: the signal may have come in the middle of a print."""
    try:
        stack = traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)
        stack.reverse()
        text = describe_place(error, stack)
        os.write(2, text[-LONGEST_TRACE:].encode("utf-8", "replace"))
    except (OSError, RecursionError):
        # The job has closed its stderr, or its stack is full.
        pass


def report_cancellation(error: BaseException, cancellation: BaseException, stderr: Optional[TextIO]) -> None:
    """Writes to stderr where a coroutine was when it was canceled. The traceback of its exception has the frames."""
    # Before Python 3.11 an event loop raises a second CancelledError, whose context is the first.
    while type(cancellation.__context__) is type(cancellation):
        cancellation = cancellation.__context__
    if stderr is not None:
        try:
            stderr.write(describe_place(error, traceback.extract_tb(cancellation.__traceback__))[-LONGEST_TRACE:])
        except (OSError, ValueError):
            pass
