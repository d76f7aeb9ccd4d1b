"""An application that makes a context of `decimal` while it is loaded."""

from decimal import Decimal, Inexact, getcontext

from taskvisor import job

getcontext().prec = 50


@job("divides")
def divides(digits):
    found = str(getcontext().prec) + " inexact" * getcontext().flags[Inexact]
    getcontext().prec = digits
    return [found, str(Decimal(1) / 3)]


@job("awaits")
async def awaits(digits):
    return divides(digits)
