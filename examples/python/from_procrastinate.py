# defer, configure(lock=, queueing_lock=, schedule_in=), connectors of tests
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from taskvisor import JobId, job
from taskvisor.sqlalchemy import on_commit

@job
def bill(order):
    return order + 1

if __name__ == "__main__":
    with Session(create_engine("sqlite://")) as session:  # defer in the transaction of the data
        on_commit(session, bill.options(id="bill-41", exists="skip").prepare(41))
        session.commit()
        on_commit(session, bill.options(id="never").prepare(0))
        session.rollback()
    assert JobId("bill-41").result(timeout=60) == 42
