"""Puts jobs when a session of SQLAlchemy is committed, and not if it is rolled back.

    from taskvisor.sqlalchemy import on_commit

    with Session() as session:
        session.add(user)
        on_commit(session, send.prepare(user.address))
        session.commit()     # now it is put
"""

from __future__ import annotations

from ..client.putting import put_many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.new_job import NewJob

#: Where a session keeps the jobs that wait for its commit.
_WAITING = "taskvisor.on_commit"
#: Whether the outermost transaction, which ends now, was committed.
_IS_COMMITTED = "taskvisor.is_committed"


def on_commit(session: Any, *jobs: NewJob) -> None:
    """Puts these jobs, all at once, when the transaction of the session is committed.

    Those of a savepoint that is rolled back are not put. For an `AsyncSession` the commit puts them, too. If they cannot be
    put, `commit` raises `PutError`: the transaction is committed then.
    """
    plain = getattr(session, "sync_session", session)
    waiting = plain.info.get(_WAITING)
    if waiting is None:
        from sqlalchemy import event

        waiting = plain.info[_WAITING] = []
        event.listen(plain, "after_commit", _committed)
        event.listen(plain, "after_soft_rollback", _rolled_back)
        event.listen(plain, "after_transaction_end", _ended)
    if not plain.in_transaction():
        plain.begin()
    transaction = plain.get_nested_transaction() or plain.get_transaction()
    waiting += [(transaction, job) for job in jobs]


def _committed(session: Any) -> None:
    # The release of a savepoint is told as a commit, too.
    session.info[_IS_COMMITTED] = not session.in_nested_transaction()


def _ended(session: Any, transaction: Any) -> None:
    if transaction.parent is not None or not session.info.pop(_IS_COMMITTED, False):
        return
    jobs = [job for _, job in session.info[_WAITING]]
    session.info[_WAITING].clear()
    put_many(jobs)


def _rolled_back(session: Any, previous: Any) -> None:
    session.info[_WAITING][:] = [(own, job) for own, job in session.info[_WAITING] if not _is_within(own, previous)]


def _is_within(transaction: Any, other: Any) -> bool:
    while transaction is not None:
        if transaction is other:
            return True
        transaction = transaction.parent
    return False
