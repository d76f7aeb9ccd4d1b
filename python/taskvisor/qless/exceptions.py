"""The exceptions of qless-py, by the same names.

Where qless-py or reqless is loaded, each is also an exception of theirs: ``except qless.exceptions.QlessException`` in the
application catches it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The same exceptions in other packages: module and name by our own name.
_ELSEWHERE = {
    "QlessException": (("qless.exceptions", "QlessException"), ("reqless.exceptions", "ReqlessError")),
    "LostLockException": (("qless.exceptions", "LostLockException"), ("reqless.exceptions", "LostLockError")),
}


class QlessException(Exception):
    """A request of a job cannot be carried out; the message says why."""

    def __new__(cls, *arguments: Any) -> QlessException:
        made: QlessException = Exception.__new__(_with_theirs(cls), *arguments)
        return made


class LostLockException(QlessException):
    """The lease of the job is lost.

    >>> str(LostLockException("7"))
    'Lost lock on 7'
    """

    def __init__(self, jid: str) -> None:
        Exception.__init__(self, f"Lost lock on {jid}")
        #: The id of the job.
        self.jid = jid


def _with_theirs(kind: type[QlessException]) -> type[QlessException]:
    """The class, derived also from those of the packages that are loaded now. Python's `except` looks at bases only."""
    theirs = []
    for module, name in _ELSEWHERE.get(kind.__name__, ()):
        other = getattr(sys.modules.get(module), name, None)
        # Our stand-in for qless-py has our own exceptions.
        if isinstance(other, type) and issubclass(other, Exception) and not issubclass(kind, other):
            theirs.append(other)
    return type(kind.__name__, (kind, *theirs), {"__module__": kind.__module__}) if theirs else kind
