"""Tasks of Django (``django.tasks``, from Django 6.0 on) as jobs of taskvisor.

    TASKS = {"default": {"BACKEND": "taskvisor.django.Backend", "OPTIONS": {"on_commit": True}}}

The workers are started by ``taskvisor start -- python3 -m taskvisor.django``, with DJANGO_SETTINGS_MODULE.
"""

from .backend import Backend
from .task import Task

__all__ = ["Backend", "Task"]
