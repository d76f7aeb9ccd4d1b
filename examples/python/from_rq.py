# Queue(...).enqueue, enqueue_in, job.latest_result, depends_on, Callback
from taskvisor import current_job, job, put

@job(queue="mail", time_limit=180, retries=3)
def send(to, subject="hi"):
    return f"{current_job().queue}: {to}"

if __name__ == "__main__":
    id = send.put("a@b.c")  # q.enqueue(send, "a@b.c")
    send.options(delay=600, id="later", exists="skip").put("d@e.f")  # q.enqueue_in(…, job_id=…)
    after = send.options(depends=[id]).put("boss")  # depends_on=job
    assert id.result(timeout=60) == "mail: a@b.c"  # job.latest_result(timeout=60)
    assert after.result(timeout=60) == "mail: boss"
    assert put("mail", "from_rq.send", ["x"]).wait(timeout=60) == "complete"  # by its name
