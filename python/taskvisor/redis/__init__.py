"""Puts jobs straight into a Redis, and waits for them there: for a web host on which no supervisor runs.

    from taskvisor.redis import RedisClient

    client = RedisClient("redis://db.example.org/0")     # the broker that the supervisors are given
    client.put("mail", "mail.Send", {"to": "a@b.c"}).result(timeout=60)
    client.use()                                         # from now on every put of this process goes there

It runs the script of taskvisor, with the keys of qless: what it puts is a job as any other. It needs the package redis:
``pip install taskvisor[redis]``.
"""

from .client import RedisClient

__all__ = ["RedisClient"]
