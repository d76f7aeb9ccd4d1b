"""Takes messages from Amazon."""

from kale import sqs


class Consumer(sqs.SQSTalk):
    pass
