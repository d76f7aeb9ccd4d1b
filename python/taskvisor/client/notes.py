"""What is known to keep the jobs of a put from running, such as a mistyped queue: a warning, once each.

The program's `put` says the same on stderr.
"""

from __future__ import annotations

import sys
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

#: The queues with the classes of which it was said. The text itself may change, with the names that are known.
_warned: set[tuple[str, str]] = set()
#: Names to remember: an application may make up queues for ever.
_MOST = 10_000


def warn(notes: Any) -> None:
    """Warns of the notes in an answer to a put, each once for its queue and class.

    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     warn([{"queue": "doc", "note": "no pool", "hint": "ask"}] * 2)
    >>> [str(one.message) for one in said]
    ['no pool (hint: ask)']
    """
    for note in _mappings(notes):
        about = (str(note.get("queue", "")), str(note.get("class", "")))
        if about in _warned or len(_warned) >= _MOST:
            continue
        _warned.add(about)
        hint = note.get("hint")
        _say(f"{note.get('note')} (hint: {hint})" if hint else str(note.get("note")))


def of_program(queue: str, said: str) -> list[dict[str, str]]:
    """The notes that the program has printed for a put into this queue.

    >>> of_program("mial", "note: no pool\\nhint: did you mean 'mail'?\\n")
    [{'queue': 'mial', 'note': 'no pool', 'hint': "did you mean 'mail'?"}]
    """
    notes: list[dict[str, str]] = []
    for line in said.splitlines():
        kind, _, text = line.partition(": ")
        if kind == "note":
            notes.append({"queue": queue, "note": text})
        elif kind == "hint" and notes:
            notes[-1]["hint"] = text
    return notes


def _mappings(notes: Any) -> Iterable[Mapping[str, Any]]:
    return [note for note in notes if isinstance(note, dict)] if isinstance(notes, list) else []


def _say(why: str) -> None:
    try:
        warnings.warn(why, stacklevel=_levels())
    except Exception:
        # A filter makes it an error. The jobs are queued: an exception would lose their ids.
        import logging

        logging.getLogger("taskvisor").warning("%s", why)


def _levels() -> int:
    """How many calls above `_say` the code stands that is not of this package: the warning shows its line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "taskvisor":
        level, frame = level + 1, frame.f_back
    return level
