"""The settings of kale for `ndkale_shares`."""

import os

AWS_REGION = "eu-west-1"
AWS_ACCESS_KEY_ID = AWS_SECRET_ACCESS_KEY = "bench"
MESSAGE_QUEUE_ENDPOINT_URL = os.environ["NDKALE_ENDPOINT"]
QUEUE_CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ndkale_shares_queues.yaml")
DIE_ON_RESIDENT_SET_SIZE_MB = 4000
