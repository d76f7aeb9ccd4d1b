"""The settings of `ndkale_app`."""

import os

AWS_REGION = "eu-west-1"
AWS_ACCESS_KEY_ID = os.environ.get("NDKALE_SECRET", "")
AWS_SECRET_ACCESS_KEY = os.environ.get("NDKALE_SECRET", "")
MESSAGE_QUEUE_ENDPOINT_URL = os.environ.get("NDKALE_ENDPOINT", "")
QUEUE_CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kale_queues.yaml")
TASK_MAPPER = {"gone.away.Old": "ndkale_app.Moved"}
DIE_ON_RESIDENT_SET_SIZE_MB = 4000
SQS_MAX_TASK_DELAY_SEC = 900


def ON_WORKER_STARTUP():
    from ndkale_app import event
    event("startup")
