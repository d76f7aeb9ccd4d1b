"""An application whose event loop is uvloop's."""

import asyncio

import uvloop
from sample import *  # noqa: F401,F403

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
