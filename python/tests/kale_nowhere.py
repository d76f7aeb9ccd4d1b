"""Settings for kale whose file of queues does not exist."""

QUEUE_CONFIG = "/nonexistent/queues.yaml"
