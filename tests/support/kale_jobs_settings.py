"""The settings of the application of `kale_jobs`."""

import os

QUEUE_CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kale_jobs_queues.yaml")
