"""The next version of an application: it knows a class more."""

from taskvisor import job


@job("later.Class")
def later():
    return "known"
