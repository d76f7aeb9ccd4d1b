"""The queues of an application."""

import standin


class TaskQueue(object):
    def __init__(self, name="default", priority=5, num_iterations=2, long_poll_time_sec=5, batch_size=5,
                 visibility_timeout_sec=600):
        self.simple_name = name
        self.name, self.dlq_name = self._decorate_name(name)
        self.visibility_timeout_sec = visibility_timeout_sec

    def _decorate_name(self, name):
        return name, f"dlq-{name}"


class QueueInfoBase(object):
    pass


class QueueInfo(QueueInfoBase):
    def __init__(self, config_file, sqs_talk, queue_cls=TaskQueue):
        self._simple_name_queues_map = {entry["name"]: queue_cls(**entry) for entry in standin.queues(config_file)}

    def get_queue(self, simple_name):
        return self._simple_name_queues_map[simple_name]
