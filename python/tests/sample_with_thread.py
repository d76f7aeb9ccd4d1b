"""An application that starts a thread while it is loaded, as libraries with pools do."""

import threading

from sample import *  # noqa: F401,F403

_never = threading.Event()
threading.Thread(target=_never.wait, daemon=True).start()
