"""Puts jobs when a session of SQLAlchemy is committed, and not if it is rolled back.

    from taskvisor.sqlalchemy import on_commit

    with Session() as session:
        session.add(user)
        on_commit(session, send.prepare(user.address))
        session.commit()     # now it is put
"""

from __future__ import annotations

from ..client.new_job import NewJob
from ..client.putting import put_many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Where a session keeps the jobs that wait for its commit.
_WAITING = "taskvisor.on_commit"
#: The transaction or savepoint that was committed, until it ends at once after that.
_COMMITTED = "taskvisor.committed"


def on_commit(session: Any, *jobs: NewJob) -> None:
    """Puts these jobs, all at once, when the transaction of the session is committed.

    Those of a savepoint or session that is rolled back or closed before are not put. For an `AsyncSession` the commit puts
    them, too. If they cannot be put, `commit` raises `PutError`: the transaction is committed then.
    """
    for job in jobs:
        # Not at the commit: the transaction would be committed then, and all its jobs lost.
        if not isinstance(job, NewJob):
            raise TypeError(f"on_commit takes jobs that are not queued yet, as send.prepare(...) and NewJob(...), not {job!r}")
    plain = getattr(session, "sync_session", session)
    waiting = plain.info.get(_WAITING)
    if waiting is None:
        from sqlalchemy import event

        waiting = plain.info[_WAITING] = []
        event.listen(plain, "after_commit", _committed)
        event.listen(plain, "after_transaction_end", _ended)
    if not plain.in_transaction():
        plain.begin()
    transaction = _innermost(plain)
    waiting += [(transaction, job) for job in jobs]


def _innermost(session: Any) -> Any:
    return session.get_nested_transaction() or session.get_transaction()


def _committed(session: Any) -> None:
    session.info[_COMMITTED] = _innermost(session)


def _ended(session: Any, transaction: Any) -> None:
    waiting = session.info[_WAITING]
    # `close`, `reset` and `invalidate` report no rollback: what was not committed is dropped.
    if session.info.pop(_COMMITTED, None) is not transaction:
        waiting[:] = [(own, job) for own, job in waiting if not _is_within(own, transaction)]
    elif transaction.parent is None:
        jobs = [job for _, job in waiting]
        waiting.clear()
        put_many(jobs)


def _is_within(transaction: Any, other: Any) -> bool:
    while transaction is not None:
        if transaction is other:
            return True
        transaction = transaction.parent
    return False
