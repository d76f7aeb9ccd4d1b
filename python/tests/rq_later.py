"""A module that a worker loads when the first job of it comes. What it changes then is the application's."""

import os
import socket

socket.setdefaulttimeout(9)
os.environ["LOADED"] = "yes"


def changes():
    os.environ["LOADED"] = os.environ["MORE"] = "changed"
    socket.setdefaulttimeout(1)
    return look()


def look():
    return [os.environ.get("LOADED"), os.environ.get("MORE"), socket.getdefaulttimeout()]
