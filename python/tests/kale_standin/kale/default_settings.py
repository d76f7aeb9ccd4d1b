"""The settings of an application that sets none."""

import time

PROPERLY_CONFIGURED = False
AWS_REGION = ""
AWS_ACCESS_KEY_ID = ""
AWS_SECRET_ACCESS_KEY = ""
MESSAGE_QUEUE_ENDPOINT_URL = ""
QUEUE_CONFIG = "queue_config.yaml"
QUEUE_CLASS = "kale.queue_info.TaskQueue"
SQS_TASK_SIZE_LIMIT = 256000
SQS_MAX_TASK_DELAY_SEC = 900
RETRY_DELAY_MULTIPLE_SEC = 60
USE_DEAD_LETTER_QUEUE = True
ENABLE_DEAD_LETTER_QUEUE = True
TASK_MAPPER = {}
TIMESTAMP_FUNC = time.time


def ON_WORKER_STARTUP():
    pass


def ON_WORKER_SHUTDOWN():
    pass


def PUBLISHER_STR_FUNC():
    return "host[7]"
