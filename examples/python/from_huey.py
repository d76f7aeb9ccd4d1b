# @huey.task, schedule, result(blocking=True), immediate mode, @periodic_task
from taskvisor import Client, job
from taskvisor.testing import inline

@job(retries=2, retry_delay=0.1)
def count(text):
    return len(text.split())

if __name__ == "__main__":
    assert count.put("a b c").result(timeout=60) == 3  # count("a b c")(blocking=True)
    count.options(delay=60).put("later")  # count.schedule(…, delay=60)
    assert count("called here") == 2  # count.call_local(…)
    with inline():  # huey.immediate = True
        assert count.put("at once").result() == 2
    Client().put_recurring("count", count.prepare("x"), every=60)  # @huey.periodic_task(crontab())
