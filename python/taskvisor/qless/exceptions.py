"""What goes wrong, by the names that qless-py has for it."""

from __future__ import annotations


class QlessException(Exception):
    """What a job asked for cannot be done; the message says why."""


class LostLockException(QlessException):
    """The job is not ours any more.

    >>> str(LostLockException("7"))
    'Lost lock on 7'
    """

    def __init__(self, jid: str) -> None:
        super().__init__(f"Lost lock on {jid}")
        #: Which job.
        self.jid = jid
