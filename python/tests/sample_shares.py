"""An application that creates objects at import that its forks must not share."""

import logging.handlers
import queue
import random
import socket
import threading

from sample import *  # noqa: F401,F403

numbers = random.Random(1)
secret = random.SystemRandom()


class Service:
    numbers = random.Random(2)


class Lazy:
    """As settings of Django that nobody has configured: whoever asks for its class makes it."""

    @property
    def __class__(self):
        raise RuntimeError("not configured")


settings = Lazy()
server = socket.create_server(("127.0.0.1", 0))
listener = logging.handlers.QueueListener(queue.Queue(), logging.StreamHandler())
listener.start()
_never = threading.Event()
threading.Thread(target=_never.wait, name="beat", daemon=True).start()
