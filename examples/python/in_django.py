# @task, enqueue, get_result (Django 6), and tests of what is put
import django
from django.conf import settings

if not settings.configured:  # A site has its settings.py.
    settings.configure(USE_TZ=True, TASKS={"default": {"BACKEND": "taskvisor.django.Backend"}})
    django.setup()

from django.tasks import task

@task(retries=3, time_limit=60)
def welcome(address):
    return f"sent to {address}"

if __name__ == "__main__":
    from in_django import welcome
    from taskvisor.testing import recording
    with recording() as jobs:
        result = welcome.using(priority=5).enqueue("ann@example.org")
    assert jobs.jobs[0].class_name == "in_django.welcome" and result.status == "READY"
    assert welcome.func("ann@example.org") == "sent to ann@example.org"
