"""An application that recreates such objects in each fork."""

import logging.handlers
import os
import queue
import random
import socket
import threading

from sample import *  # noqa: F401,F403

numbers = random.Random(1)
server = socket.create_server(("127.0.0.1", 0))
records = queue.SimpleQueue()
listener = logging.handlers.QueueListener(records, logging.StreamHandler())
listener.start()
_never = threading.Event()


def start():
    threading.Thread(target=_never.wait, name="beat-1", daemon=True).start()


def start_in_child():
    start()
    listener.start()
    numbers.seed()
    server.close()


start()
os.register_at_fork(before=listener.stop, after_in_parent=listener.start, after_in_child=start_in_child)
