"""The exceptions that tasks and publishers meet."""


class ImproperlyConfiguredException(Exception):
    pass


class TaskException(Exception):
    pass


class TimeoutException(TaskException):
    pass


class BlacklistedException(TaskException):
    pass


class ChubbyTaskException(TaskException):
    pass


class InvalidTaskDelayException(TaskException):
    pass


class InvalidTimeLimitTaskException(TaskException):
    pass
