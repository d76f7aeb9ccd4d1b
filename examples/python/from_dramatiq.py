# @actor, send, send_with_options, group, middleware's time limits, StubBroker
from taskvisor import Fail, JobFailed, gather, job
from taskvisor.testing import recording

@job(queue="reports", time_limit=10, retries=0)
def report(month):
    if month > 12:
        raise Fail(f"no month: {month}")  # @actor(throws=…)
    return month * 2

if __name__ == "__main__":
    report.options(delay=60).put(3)  # report.send_with_options(args=(3,), delay=60_000)
    assert gather([report.put(n) for n in (1, 2)], timeout=60) == [2, 4]  # group([…]).run()
    try:
        report.put(13).result(timeout=60)
    except JobFailed as error:
        assert error.group == "Fail"
    with recording() as jobs:  # StubBroker
        report.put(4)
    jobs.assert_put(report, 4)
