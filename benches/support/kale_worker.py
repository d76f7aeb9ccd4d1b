"""A worker as kale has it, over boto3 and the stand-in's messages: kale itself is on no package index.

`kale_worker.py ENDPOINT work`      takes tasks for ever: one process, one loop, kale's order of calls
`kale_worker.py ENDPOINT fill N FILE`   sends N tasks that append one byte to FILE
"""

import contextlib
import importlib
import random
import signal
import sys
import time

import boto3
import botocore.exceptions
from kale import exceptions
from kale.message import KaleMessage

# What kale is measured with in the facts about it: one queue, batches of ten, five of them after each selection.
QUEUE, PRIORITY, ITERATIONS, BATCH, VISIBILITY, POLL = "bench", 50, 5, 10, 600, 1


class Queues:
    """The calls, and the queue's address, asked once."""

    def __init__(self, endpoint):
        self.sqs = boto3.client("sqs", region_name="eu-west-1", endpoint_url=endpoint,
                                aws_access_key_id="bench", aws_secret_access_key="bench")
        try:
            self.url = self.sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"]
        except botocore.exceptions.ClientError:
            self.url = self.sqs.create_queue(QueueName=QUEUE)["QueueUrl"]

    def has_work(self):
        found = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["All"])["Attributes"]
        return int(found["ApproximateNumberOfMessages"]) > 0

    def receive(self):
        return self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=BATCH, VisibilityTimeout=VISIBILITY,
                                        WaitTimeSeconds=POLL).get("Messages", [])

    def delete(self, messages):
        entries = [{"Id": each["MessageId"], "ReceiptHandle": each["ReceiptHandle"]} for each in messages]
        answer = self.sqs.delete_message_batch(QueueUrl=self.url, Entries=entries)
        if answer.get("Failed"):
            raise SystemExit(f"not deleted: {answer['Failed']}")

    def send(self, bodies):
        for start in range(0, len(bodies), BATCH):
            entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies[start:start + BATCH])]
            self.sqs.send_message_batch(QueueUrl=self.url, Entries=entries)


def selected(queues):
    """The reduced lottery: a queue by its tickets; one that is empty leaves the draw."""
    left = [queues]
    while left:
        drawn = random.choices(left, [PRIORITY] * len(left))[0]
        if drawn.has_work():
            return drawn
        left.remove(drawn)
    return queues


def run(message):
    module, name = message.task_name.rsplit(".", 1)
    task = getattr(importlib.import_module(module), name)(message._get_message_body())
    message.task_inst = task
    args, kwargs = message.task_args, message.task_kwargs
    signal.alarm(task.time_limit)
    try:
        if task.should_run_task(*args, **kwargs):
            task.run(*args, **kwargs)
    finally:
        signal.alarm(0)


def timed_out(*_):
    raise exceptions.TimeoutException


def work(queues):
    signal.signal(signal.SIGALRM, timed_out)
    while True:
        queue = selected(queues)
        for _ in range(ITERATIONS):
            received = queue.receive()
            if not received:
                break
            stop = time.time() + VISIBILITY
            messages = [KaleMessage.decode_str(each["Body"]) for each in received]
            for message in messages:
                if 60 < stop - time.time():
                    run(message)
            queue.delete(received)


def fill(queues, count, path):
    import kale_tasks

    payload = {"args": (path,), "kwargs": {}}
    queues.send([KaleMessage(task_class=kale_tasks.Mark, task_id=f"Mark_uuid_{n}", payload=payload).encode()
                 for n in range(count)])


if __name__ == "__main__":
    endpoint, verb, *rest = sys.argv[1:]
    with contextlib.suppress(KeyboardInterrupt):
        if verb == "fill":
            fill(Queues(endpoint), int(rest[0]), rest[1])
        else:
            work(Queues(endpoint))
