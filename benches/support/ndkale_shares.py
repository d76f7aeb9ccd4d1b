"""How many of the first tasks the real kale takes from each of three queues with a backlog: `run-ndkale shares`.

`ndkale_shares.py SELECTOR TASKS` prints the numbers, the queue of the highest priority first.
"""

import os
import sys

os.environ["KALE_SETTINGS_MODULE"] = "ndkale_shares_settings"
sys.path.insert(0, os.environ["NDKALE"])

from kale import settings, task, worker  # noqa: E402

QUEUES = ("high", "mid", "low")
ran = []


class Mark(task.Task):
    """Notes the queue from which it comes."""

    queue = None

    def run_task(self):
        ran.append(self.queue)


class High(Mark):
    queue = "high"


class Mid(Mark):
    queue = "mid"


class Low(Mark):
    queue = "low"


class Worker(worker.Worker):
    """Kale's own, until enough tasks have run."""

    tasks = 0

    def _check_process_resources(self):
        return len(ran) < self.tasks


def main(selector, tasks):
    settings.QUEUE_SELECTOR = f"kale.queue_selector.{selector}"
    Worker.tasks = tasks
    for kind in (High, Mid, Low):
        for _ in range(tasks):
            kind.publish(None)
    Worker().run()
    print(*(ran[:tasks].count(queue) for queue in QUEUES))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
