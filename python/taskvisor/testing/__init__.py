"""Tests of what puts jobs, and of the jobs themselves.

* `inline()`: a put runs the job at once, in this process, with the rules of a worker.
* `recording()`: puts are recorded, and nothing runs.
* `Server(...)`: a real supervisor with real workers, in a temporary directory; with `drain`.

    from taskvisor.testing import inline

    def test_send():
        with inline() as jobs:
            assert app.send.put("a@b.c").result() == {"sent": 1}
            jobs.assert_put(app.audit, "a@b.c")

With pytest, the fixtures `taskvisor_inline`, `taskvisor_recording` and `taskvisor_server` are these.
"""

from .inline import Inline, inline
from .recording import Recording, recording
from .server import Server

__all__ = ["Inline", "Recording", "Server", "inline", "recording"]
