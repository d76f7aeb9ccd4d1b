"""Tasks of the shapes that Django's own tests have."""

from django.db import connection
from django.dispatch import receiver
from django.tasks import task
from django.tasks.signals import task_finished

from taskvisor import job


@task
def noop(*args, **kwargs):
    return None


@task
def add(a, b=1):
    return a + b


@task
async def coroutine(a):
    return a * 2


@task
def fails():
    raise ValueError("This Task failed due to ValueError")


@task
def cannot_be_kept():
    return object()


@task
def exits():
    raise SystemExit("bye")


@task(retries=2)
def third_time(path):
    with open(path, "a+") as file:
        file.write("x")
        file.seek(0)
        if len(file.read()) < 3:
            raise KeyError("not yet")
    return "at last"


@task(takes_context=True)
def with_context(context, a):
    return [context.attempt, context.task_result.id, context.task_result.status, a]


@task(takes_context=True, retries=2)
def workers(context):
    if context.attempt < 3:
        raise KeyError("not yet")
    return context.task_result.worker_ids


@task(takes_context=True)
def names(context, _a):
    return context.task_result.worker_ids


@task(takes_context=True)
async def coroutine_with_context(context):
    return context.attempt


@task(priority=5, queue_name="low")
def low():
    return None


@task(time_limit=0.3)
def sleeps():
    import time

    time.sleep(60)


@task
def counts():
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from put")
        return cursor.fetchone()[0]


@task
async def awaits_database():
    from asgiref.sync import sync_to_async

    return await sync_to_async(counts.func)()


@task
def pid():
    import os

    return [os.getpid(), connection.connection is None]


@receiver(task_finished)
def finished(sender, task_result, **_):
    """Keeps the ends of some tasks in the database."""
    if task_result.task.func.__name__ == "fails_awaited":
        with connection.cursor() as cursor:
            cursor.execute("insert into put values (%s)", [f"{task_result.id} {task_result.errors[0].exception_class_path}"])
        if task_result.kwargs:
            raise LookupError("the receiver")


@task
async def fails_awaited(**_):
    raise ValueError("the real reason")


@task
def ends(id):
    with connection.cursor() as cursor:
        cursor.execute("select id from put where id like %s", [f"{id}%"])
        return [row[0] for row in cursor.fetchall()]


@job("site.Nightly", cron="0 3 * * *")
def nightly():
    return "night"


@task
def backend_pid():
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return cursor.fetchone()[0]


@task
def breaks_transaction():
    connection.set_autocommit(False)
    with connection.cursor() as cursor:
        cursor.execute("select 1 / 0")
