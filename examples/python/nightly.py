# a batch as of Airflow: steps that need others, retries, one result in the end
from taskvisor import JobId, job, put_many

@job(queue="nightly", retries=3, retry_delay=1)
def extract(source):
    return [len(source), 1]

@job(queue="nightly")
def load(parts):
    # All parts are complete, so that nobody waits here.
    return sum(sum(JobId(part).result(hold_slot=True)) for part in parts)

if __name__ == "__main__":
    day, sources = "2026-11-28", ["orders", "users"]
    parts = [f"extract-{source}-{day}" for source in sources]
    ids = put_many([  # All or none; put again for the same day, it puts nothing.
        *(extract.options(id=part, exists="skip").prepare(source)
          for part, source in zip(parts, sources)),
        load.options(id=f"load-{day}", exists="skip", depends=parts).prepare(parts)])
    assert ids[-1].result(timeout=60) == 13
