"""An application that starts a thread at import, as libraries with pools do."""

import threading

from sample import *  # noqa: F401,F403

_never = threading.Event()
threading.Thread(target=_never.wait, daemon=True).start()
