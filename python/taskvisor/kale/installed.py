"""The application's own kale: only the names of it that are used here."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Installed:
    """kale as the application has installed it. Making this imports it."""

    def __init__(self) -> None:
        #: Its settings with those of the application over them: an object, no module.
        self.settings: Any = importlib.import_module("kale").settings
        #: Its base class of tasks.
        self.task: Any = importlib.import_module("kale.task").Task
        #: Its class of messages.
        self.message: Any = importlib.import_module("kale.message").KaleMessage
        #: Its class that checks tasks and sends them.
        self.publisher: Any = importlib.import_module("kale.publisher").Publisher
        #: Its exceptions.
        self.exceptions: Any = importlib.import_module("kale.exceptions")
        #: Its reader of the file of queues, and the classes of queues in it.
        self.queue_info: Any = importlib.import_module("kale.queue_info")
        #: Its functions, among them the one that finds a class.
        self.utils: Any = importlib.import_module("kale.utils")

    def queues(self) -> Any:
        """The queues of the application, read as kale reads them. Raises what kale raises for a file that it cannot read."""
        settings = self.settings
        if not settings.PROPERLY_CONFIGURED:
            raise self.exceptions.ImproperlyConfiguredException(
                "kale has no settings of the application: KALE_SETTINGS_MODULE must name a module that can be imported")
        return self.queue_info.QueueInfo(settings.QUEUE_CONFIG, None, self.utils.class_import_from_path(settings.QUEUE_CLASS))
