"""A site for tests of `taskvisor.django`."""

import os

SECRET_KEY = "x"
USE_TZ = True
INSTALLED_APPS = ["django_site"]
if "SITE_POSTGRES" in os.environ:
    DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "HOST": os.environ["SITE_POSTGRES"], "USER": "site",
                             "NAME": "postgres", "CONN_MAX_AGE": 600}}
else:
    DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SITE_DATABASE", ":memory:")}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TASKS = {"default": {"BACKEND": "taskvisor.django.Backend", "QUEUES": ["default", "low"]},
         "late": {"BACKEND": "taskvisor.django.Backend", "QUEUES": [], "OPTIONS": {"on_commit": True, "retries": 1}}}
