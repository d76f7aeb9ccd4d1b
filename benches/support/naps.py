"""The jobs of `workers.rs` that wait in an event loop: apart, since an application loads what it uses and no more."""

import asyncio

from taskvisor import job


@job("nap")
async def nap():
    await asyncio.sleep(0.01)
