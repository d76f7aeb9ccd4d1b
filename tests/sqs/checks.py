"""What SQS does, checked of an emulator: ``python checks.py ENDPOINT [--moto]``. Prints a line for each check.

moto differs from Amazon's documentation in some points. With ``--moto`` their checks must fail, so that a moto that has
learned one is noticed.
"""

import json
import sys
import time
import traceback

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

SQS = boto3.client("sqs", endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="x",
                   aws_secret_access_key="y", config=Config(retries={"max_attempts": 1}, read_timeout=30))
MOTO = "--moto" in sys.argv
CHECKS = []
#: Names of checks that moto does not pass.
BEYOND = set()


def check(function):
    CHECKS.append(function)
    return function


def check_beyond_moto(function):
    BEYOND.add(function.__name__)
    return check(function)


class Queue:
    """A new queue for one check."""

    def __init__(self, name, **attributes):
        self.url = SQS.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    def send(self, body, **more):
        return SQS.send_message(QueueUrl=self.url, MessageBody=body, **more)

    def receive(self, most=10, **more):
        return SQS.receive_message(QueueUrl=self.url, MaxNumberOfMessages=most, **more).get("Messages", [])

    def delete(self, message):
        return SQS.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])

    def hide(self, message, seconds):
        return SQS.change_message_visibility(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"],
                                             VisibilityTimeout=seconds)

    def attributes(self, *names):
        return SQS.get_queue_attributes(QueueUrl=self.url, AttributeNames=list(names) or ["All"])["Attributes"]

    def counts(self):
        """Visible, in flight, delayed."""
        found = self.attributes()
        return tuple(int(found["ApproximateNumberOfMessages" + which]) for which in ("", "NotVisible", "Delayed"))


def refused(*codes):
    """Asserts that the body of the `with` is refused with one of these codes."""
    class Refused:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, _trace):
            assert kind is not None, f"not refused; {codes} expected"
            if issubclass(kind, ClientError):
                code = error.response["Error"]["Code"]
                assert code in codes, f"refused with {code}; {codes} expected"
            return issubclass(kind, ClientError)
    return Refused()


def bodies(messages):
    return [message["Body"] for message in messages]


def until(condition):
    """Waits for a condition for ten seconds."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
    raise AssertionError("it does not come true")


@check
def a_queue_is_found_by_its_name(name):
    queue = Queue(name)
    assert SQS.get_queue_url(QueueName=name)["QueueUrl"] == queue.url
    assert queue.url in SQS.list_queues(QueueNamePrefix=name)["QueueUrls"]
    assert SQS.create_queue(QueueName=name)["QueueUrl"] == queue.url


@check
def a_queue_that_is_not_there_is_refused(name):
    with refused("AWS.SimpleQueueService.NonExistentQueue"):
        SQS.get_queue_url(QueueName=name)
    queue = Queue(name)
    SQS.delete_queue(QueueUrl=queue.url)
    with refused("AWS.SimpleQueueService.NonExistentQueue"):
        queue.send("x")
    with refused("AWS.SimpleQueueService.NonExistentQueue"):
        queue.receive()


@check
def a_wrong_name_is_refused(name):
    for wrong in ("a b", "x" * 81, "a.b"):
        with refused("InvalidParameterValue"):
            Queue(wrong)


@check
def attributes_are_kept_and_checked(name):
    queue = Queue(name, VisibilityTimeout="7", DelaySeconds="1")
    assert queue.attributes("VisibilityTimeout") == {"VisibilityTimeout": "7"}
    SQS.set_queue_attributes(QueueUrl=queue.url, Attributes={"VisibilityTimeout": "9"})
    assert queue.attributes()["VisibilityTimeout"] == "9"
    assert queue.attributes()["QueueArn"].endswith(":" + name)


@check_beyond_moto
def a_wrong_attribute_is_refused(name):
    with refused("InvalidAttributeValue"):
        Queue(name, DelaySeconds="901")


@check
def a_message_is_sent_received_and_deleted(name):
    queue = Queue(name)
    sent = queue.send("ü body")
    message, = queue.receive()
    assert message["Body"] == "ü body" and message["MessageId"] == sent["MessageId"]
    # botocore compares the MD5 of each body by itself.
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert queue.counts() == (0, 1, 0)
    queue.delete(message)
    assert queue.counts() == (0, 0, 0)
    queue.delete(message)


@check
def attributes_of_a_message_come_back_with_their_checksum(name):
    queue = Queue(name)
    given = {"text": {"DataType": "String", "StringValue": "ü"}, "a": {"DataType": "Number", "StringValue": "7"},
             "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}}
    sent = queue.send("x", MessageAttributes=given)
    message, = queue.receive(MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == given, message
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert sent["MD5OfMessageAttributes"] == "4627b17da9e458f7944f9e21a03129fb", sent["MD5OfMessageAttributes"]


@check
def receives_are_counted(name):
    queue = Queue(name)
    queue.send("x")
    for count in ("1", "2", "3"):
        message, = queue.receive(AttributeNames=["All"], VisibilityTimeout=60)
        assert message["Attributes"]["ApproximateReceiveCount"] == count
        assert abs(int(message["Attributes"]["SentTimestamp"]) / 1000 - time.time()) < 60
        assert int(message["Attributes"]["ApproximateFirstReceiveTimestamp"]) > 0
        queue.hide(message, 0)
    message, = queue.receive()
    assert "Attributes" not in message


@check
def a_message_is_visible_again_after_its_time(name):
    queue = Queue(name)
    queue.send("x")
    first, = queue.receive(VisibilityTimeout=1)
    assert queue.receive() == []
    second, = queue.receive(WaitTimeSeconds=10)
    assert second["MessageId"] == first["MessageId"] and second["ReceiptHandle"] != first["ReceiptHandle"]


@check
def visibility_counts_from_now(name):
    queue = Queue(name)
    queue.send("x")
    message, = queue.receive(VisibilityTimeout=600)
    queue.hide(message, 1)
    assert until(queue.receive)


@check
def visibility_beyond_twelve_hours_is_refused(name):
    queue = Queue(name)
    queue.send("x")
    message, = queue.receive()
    with refused("InvalidParameterValue"):
        queue.hide(message, 43201)


@check_beyond_moto
def visibility_of_what_is_not_in_flight_is_refused(name):
    queue = Queue(name)
    queue.send("x")
    message, = queue.receive()
    queue.hide(message, 0)
    with refused("AWS.SimpleQueueService.MessageNotInflight"):
        queue.hide(message, 5)


@check
def a_handle_that_is_none_is_refused(name):
    queue = Queue(name)
    with refused("ReceiptHandleIsInvalid"):
        queue.delete({"ReceiptHandle": "nonsense"})
    with refused("ReceiptHandleIsInvalid"):
        queue.hide({"ReceiptHandle": "nonsense"}, 5)


@check
def a_delay_hides_a_message(name):
    queue = Queue(name)
    queue.send("later", DelaySeconds=1)
    assert queue.counts() == (0, 0, 1)
    assert queue.receive() == []
    assert bodies(queue.receive(WaitTimeSeconds=10)) == ["later"]
    with refused("InvalidParameterValue"):
        queue.send("x", DelaySeconds=901)


@check
def a_long_poll_returns_when_a_message_comes_or_its_time_ends(name):
    queue = Queue(name)
    start = time.monotonic()
    assert queue.receive(WaitTimeSeconds=1) == []
    assert 0.9 < time.monotonic() - start
    with refused("InvalidParameterValue"):
        queue.receive(WaitTimeSeconds=21)


@check
def at_most_ten_messages_come_at_once(name):
    queue = Queue(name)
    for at in range(12):
        queue.send(str(at))
    assert len(queue.receive(most=10)) == 10
    assert len(queue.receive(most=10)) == 2
    for most in (0, 11):
        with refused("InvalidParameterValue", "ReadCountOutOfRange"):
            queue.receive(most=most)


@check
def a_batch_answers_for_each_entry(name):
    queue = Queue(name)
    entries = [{"Id": f"e-{at}", "MessageBody": str(at)} for at in range(10)]
    answer = SQS.send_message_batch(QueueUrl=queue.url, Entries=entries)
    assert sorted(entry["Id"] for entry in answer["Successful"]) == sorted(entry["Id"] for entry in entries)
    messages = queue.receive()
    entries = [{"Id": str(at), "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
               for at, message in enumerate(messages[:5])]
    answer = SQS.change_message_visibility_batch(QueueUrl=queue.url, Entries=entries)
    assert len(answer["Successful"]) == 5 and not answer.get("Failed")
    messages[:5] = queue.receive()
    entries = [{"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]} for at, message in enumerate(messages)]
    entries[3]["ReceiptHandle"] = "nonsense"
    answer = SQS.delete_message_batch(QueueUrl=queue.url, Entries=entries)
    assert len(answer["Successful"]) == 9, answer
    failed, = answer["Failed"]
    assert failed["Id"] == "3" and failed["SenderFault"] is True and failed["Code"] == "ReceiptHandleIsInvalid", failed


@check
def a_wrong_batch_is_refused_as_a_whole(name):
    queue = Queue(name)
    def send(*ids):
        SQS.send_message_batch(QueueUrl=queue.url, Entries=[{"Id": one, "MessageBody": "x"} for one in ids])
    for code, ids in (("TooManyEntriesInBatchRequest", map(str, range(11))), ("BatchEntryIdsNotDistinct", "aa"),
                      ("InvalidBatchEntryId", ["a b"]), ("EmptyBatchRequest", [])):
        with refused("AWS.SimpleQueueService." + code):
            send(*ids)
    assert queue.counts() == (0, 0, 0)


@check_beyond_moto
def an_empty_message_is_refused(name):
    with refused("InvalidParameterValue"):
        Queue(name).send("")


@check_beyond_moto
def what_is_no_xml_is_refused(name):
    with refused("InvalidMessageContents"):
        Queue(name).send("a\u0001b")


@check
def a_purge_removes_all(name):
    queue = Queue(name)
    for at in range(3):
        queue.send(str(at))
    queue.receive(most=1)
    SQS.purge_queue(QueueUrl=queue.url)
    assert queue.counts() == (0, 0, 0)


@check
def what_is_received_too_often_goes_to_the_dead_letter_queue(name):
    dead = Queue("dlq-" + name)
    policy = {"deadLetterTargetArn": dead.attributes()["QueueArn"], "maxReceiveCount": "2"}
    queue = Queue(name, RedrivePolicy=json.dumps(policy))
    queue.send("poison")
    for _ in range(2):
        message, = queue.receive()
        queue.hide(message, 0)
    assert queue.receive() == []
    assert bodies(dead.receive()) == ["poison"]


FIFO = {"FifoQueue": "true"}


@check
def a_fifo_queue_keeps_the_order_of_a_group_and_lets_other_groups_by(name):
    queue = Queue(name + ".fifo", ContentBasedDeduplication="true", **FIFO)
    for at in range(3):
        queue.send(f"a{at}", MessageGroupId="a")
    first, = queue.receive(most=1, AttributeNames=["All"])
    assert first["Body"] == "a0" and first["Attributes"]["MessageGroupId"] == "a"
    # A message of the group is in flight, so no other one is delivered.
    assert queue.receive() == []
    queue.send("b0", MessageGroupId="b")
    assert bodies(queue.receive()) == ["b0"]
    queue.delete(first)
    assert bodies(queue.receive()) == ["a1", "a2"]


@check
def a_fifo_queue_takes_a_message_once(name):
    queue = Queue(name + ".fifo", **FIFO)
    queue.send("x", MessageGroupId="g", MessageDeduplicationId="1")
    queue.send("x", MessageGroupId="g", MessageDeduplicationId="1")
    queue.send("x", MessageGroupId="g", MessageDeduplicationId="2")
    assert len(queue.receive()) == 2


@check_beyond_moto
def a_message_that_was_taken_before_has_the_id_of_the_first(name):
    queue = Queue(name + ".fifo", **FIFO)
    first, second = (queue.send("x", MessageGroupId="g", MessageDeduplicationId="1") for _ in range(2))
    assert first["MessageId"] == second["MessageId"]


@check
def messages_of_a_fifo_queue_have_numbers(name):
    queue = Queue(name + ".fifo", **FIFO)
    sent = queue.send("x", MessageGroupId="g", MessageDeduplicationId="1")
    message, = queue.receive(AttributeNames=["All"])
    assert message["Attributes"]["SequenceNumber"] == sent["SequenceNumber"]


@check
def a_fifo_queue_wants_a_group_and_an_id_and_no_delay(name):
    queue = Queue(name + ".fifo", **FIFO)
    with refused("MissingParameter"):
        queue.send("x", MessageDeduplicationId="1")
    with refused("InvalidParameterValue"):
        queue.send("x", MessageGroupId="g")
    with refused("InvalidParameterValue"):
        queue.send("x", MessageGroupId="g", MessageDeduplicationId="1", DelaySeconds=5)
    with refused("InvalidParameterValue"):
        Queue(name, **FIFO)


failures = 0
for number, function in enumerate(CHECKS):
    fails = MOTO and function.__name__ in BEYOND
    try:
        function(f"check-{number}")
        wrong = "moto has learned this: it is a check for both now" if fails else ""
    except Exception:
        wrong = "" if fails else traceback.format_exc()
    failures += wrong != ""
    print("FAILED" if wrong else "differs" if fails else "ok", function.__name__, wrong)
print(len(CHECKS), "checks,", failures, "failed")
sys.exit(failures > 0)
