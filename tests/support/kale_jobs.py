"""Tasks of kale for the real supervisor. `python/tests/kale_standin` stands in for kale."""

import os

from kale import exceptions, task


class Base(task.Task):
    queue = "mail"
    _retry_delay_multiple = 0


class Send(Base):
    def run_task(self, to):
        print("to", to, os.environ.get("AWS_ACCESS_KEY_ID"))


class SendAll(Base):
    def run_task(self, people):
        for person in people:
            Send.publish(None, to=person)


class Fails(Base):
    max_retries = 2

    def run_task(self):
        print("fails")
        raise ConnectionError("no answer")




class Blacklisted(Base):
    def _check_blacklist(self):
        raise exceptions.BlacklistedException("not this one")
