"""The plugin for pytest: the fixtures of `taskvisor.testing`. Only pytest imports it."""

from __future__ import annotations

import pytest

from ..client.settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from . import Inline, Recording, Server


# At once: the modules of the application that conftest.py imports must put nothing into a real service, either.
settings.is_under_pytest = True


def pytest_unconfigure() -> None:
    """The session is over, and the program that has called pytest may put again."""
    settings.is_under_pytest = False


@pytest.fixture
def taskvisor_inline() -> Iterator[Inline]:
    """Within the test, a put runs the job at once, in this process: `taskvisor.testing.inline`."""
    from . import inline

    with inline() as jobs:
        yield jobs


@pytest.fixture
def taskvisor_recording() -> Iterator[Recording]:
    """Within the test, puts are recorded and nothing runs: `taskvisor.testing.recording`."""
    from . import recording

    with recording() as jobs:
        yield jobs


@pytest.fixture
def taskvisor_server() -> Iterator[Server]:
    """A real supervisor whose workers load the modules of all jobs that are known: `taskvisor.testing.Server`."""
    from . import Server

    with Server() as server:
        yield server
