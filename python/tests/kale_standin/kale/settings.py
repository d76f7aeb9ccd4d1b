"""Defaults, and over them what the module in KALE_SETTINGS_MODULE says."""

import importlib
import os

SQS_MAX_TASK_DELAY_SEC = 900
SQS_TASK_SIZE_LIMIT = 256000
RETRY_DELAY_MULTIPLE_SEC = 60
TASK_MAPPER = {}

if "KALE_SETTINGS_MODULE" in os.environ:
    for name, value in vars(importlib.import_module(os.environ["KALE_SETTINGS_MODULE"])).items():
        if name.isupper():
            globals()[name] = value
