"""Runs `ndkale_app` by kale's own worker and by ours, and compares what they did.

It needs the real kale: see `run-ndkale`. With `publish` or `work` it is a process of kale; otherwise it compares.
"""

import json
import os
import subprocess
import sys
import tempfile

import boto3
import support

#: The outcome of a task that kale gives up.
FAILED = "failed_for_good"


def work():
    """Kale's own worker, until there is no task any more."""
    import ndkale_app

    worker = ndkale_app.Worker()
    worker._batch_queue = worker._queue_selector.queue_info.get_queue("mail")
    while worker._run_single_iteration():
        pass


def publish(directory):
    """An application of kale that publishes."""
    import ndkale_app

    ndkale_app.publish_all(directory)


class Side:
    """A directory with the events of one worker."""

    def __init__(self, place, name):
        self.directory = os.path.join(place, name)
        os.mkdir(self.directory)
        self.events = os.path.join(self.directory, "events")
        self.environment = {"NDKALE_EVENTS": self.events, "KALE_SETTINGS_MODULE": "ndkale_settings",
                            "PYTHONPATH": os.pathsep.join([support.PACKAGE, support.HERE, os.environ["NDKALE"]])}

    def run(self, *arguments):
        """A process of kale, with the credentials that kale needs."""
        subprocess.run([sys.executable, __file__, *arguments], check=True,
                       env={**os.environ, **self.environment, "NDKALE_SECRET": "test"})

    def lines(self):
        """The events, in an order that does not depend on that of the tasks, without the directory."""
        with open(self.events) as file:
            return sorted(line.strip().replace(self.directory, "DIR") for line in file)


def queue(sqs, name):
    """The address of a queue."""
    return sqs.create_queue(QueueName=name)["QueueUrl"]


def taken(sqs, name):
    """Takes all bodies of a queue; those with a delay of a second come as well."""
    found = []
    while True:
        batch = sqs.receive_message(QueueUrl=queue(sqs, name), MaxNumberOfMessages=10, WaitTimeSeconds=3)
        if not batch.get("Messages"):
            return found
        for message in batch["Messages"]:
            found.append(message["Body"])
            sqs.delete_message(QueueUrl=queue(sqs, name), ReceiptHandle=message["ReceiptHandle"])


def by_ours(side, bodies):
    """Runs tasks in our worker; returns the classes of those that failed for good, and the bodies that it published."""
    from kale.message import KaleMessage

    worker = support.Worker("-m", "ndkale_app", "-w", "ndkale_app.Worker", program="taskvisor.kale", module=None,
                            env={**side.environment, "AWS_EC2_METADATA_DISABLED": "true"})
    waiting, failed, published = list(bodies), [], []
    while waiting:
        body = waiting.pop(0)
        name = KaleMessage.decode_str(body).task_name
        worker.run(name, body, queue="mail")
        while True:
            word, fields = worker.receive()
            if word == "call" and fields["verb"] == "put":
                published += [job["data"] for job in fields["args"]["jobs"]]
                waiting += [job["data"] for job in fields["args"]["jobs"]]
            elif word == "call":
                waiting.append(fields["args"]["data"])
            elif word == "done":
                failed += [name] * (fields["outcome"] == FAILED)
                break
            else:
                raise SystemExit(f"the worker ended: {worker.stderr()}")
            worker.send("reply", n=fields["n"], ok={"ids": ["put"]})
    worker.end()
    return sorted(failed), published


def compare(what, kale, ours):
    """Ends with what differs, if anything does."""
    if kale != ours:
        different = [f"kale only: {line}" for line in kale if line not in ours]
        different += [f"ours only: {line}" for line in ours if line not in kale]
        raise SystemExit(f"{what} differ:\n" + "\n".join(different or [f"kale {kale}", f"ours {ours}"]))
    print(f"{what}: {len(kale)}, the same")


def main(place):
    """Both workers, with the same tasks."""
    os.environ.update(KALE_SETTINGS_MODULE="ndkale_settings", NDKALE_EVENTS=os.devnull)
    sys.path.insert(0, os.environ["NDKALE"])
    from kale.message import KaleMessage

    sqs = boto3.client("sqs", endpoint_url=os.environ["NDKALE_ENDPOINT"], region_name="eu-west-1",
                       aws_access_key_id="test", aws_secret_access_key="test")
    kale, ours = Side(place, "kale"), Side(place, "ours")
    kale.run("publish", kale.directory)
    kale.run("work")
    dead = sorted(KaleMessage.decode_str(body).task_name for body in taken(sqs, "dlq-mail"))
    ours.run("publish", ours.directory)
    failed, published = by_ours(ours, taken(sqs, "mail"))
    compare("event lines", kale.lines(), ours.lines())
    compare("tasks that failed for good", dead, failed)
    back, again = Side(place, "back"), Side(place, "again")
    for body in published:
        sqs.send_message(QueueUrl=queue(sqs, "mail"), MessageBody=body)
    back.run("work")
    by_ours(again, published)
    compare("event lines of tasks that our worker published", back.lines(), again.lines())


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        work()
    elif sys.argv[1:2] == ["publish"]:
        publish(sys.argv[2])
    else:
        with tempfile.TemporaryDirectory(prefix="ndkale-") as own:
            main(own)
