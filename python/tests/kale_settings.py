"""The settings of the application for kale."""

TASK_MAPPER = {"old.path.Noop": "kale_sample.Noop"}
SQS_MAX_TASK_DELAY_SEC = 300


def ON_WORKER_STARTUP():
    print("startup")


def ON_WORKER_SHUTDOWN():
    print("shutdown")
