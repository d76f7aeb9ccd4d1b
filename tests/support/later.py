"""The next version of an application, with one more class."""

from taskvisor import job


@job("later.Class")
def later():
    return "known"
