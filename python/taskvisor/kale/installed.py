"""The application's own kale: only the names of it that are used here."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Installed:
    """kale as the application has installed it. Making this imports it."""

    def __init__(self) -> None:
        #: Its base class of tasks.
        self.task: Any = importlib.import_module("kale.task").Task
        message: Any = importlib.import_module("kale.message")
        #: Its class of messages.
        self.message: Any = message.KaleMessage
        #: Makes a message of a body, without its task.
        self.decode: Any = getattr(message, "decode_str", None) or message.KaleMessage.decode_str
        #: Its settings, with those of the application over them.
        self.settings: Any = importlib.import_module("kale.settings")
        #: Its exceptions.
        self.exceptions: Any = importlib.import_module("kale.exceptions")

    def setting(self, name: str, default: Any) -> Any:
        """The value of a setting, if it is set."""
        return getattr(self.settings, name, default)
