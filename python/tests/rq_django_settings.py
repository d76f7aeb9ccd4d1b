"""Settings of an application of Django that uses django-rq."""

import os

SECRET_KEY = "for tests"
INSTALLED_APPS = []
RQ_QUEUES = {
    "default": {"URL": "redis://db:6380", "DB": 2},
    "high": {"HOST": "db", "PORT": 6380, "DB": 2},
    "far": {"HOST": "other", "PORT": 6379, "DB": 0, "PASSWORD": "p/w"},
}
RQ_EXCEPTION_HANDLERS = ["rq_sample.handler"]
if os.environ.get("WITHOUT_QUEUES"):
    del RQ_QUEUES
