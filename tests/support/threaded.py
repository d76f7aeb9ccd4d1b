"""An application whose import starts a thread that never ends."""

import threading
import time

from app import *  # noqa: F401,F403


def forever():
    while True:
        time.sleep(0.01)


threading.Thread(target=forever, daemon=True).start()
