"""The settings of the application for kale."""

import os

QUEUE_CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kale_queues.yaml")
SQS_TASK_SIZE_LIMIT = 4000
TASK_MAPPER = {"old.path.Noop": "kale_sample.Noop"}
SQS_MAX_TASK_DELAY_SEC = 300


def ON_WORKER_STARTUP():
    print("startup")


def ON_WORKER_SHUTDOWN():
    print("shutdown")
