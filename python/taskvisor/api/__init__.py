"""Clients of the API: `Client` for threads, `AsyncClient` for event loops, of one supervisor, here or elsewhere.

    from taskvisor.api import Client

    client = Client("http://jobs.example.org:9180", token_file="/etc/app/taskvisor-token")
    client.put("mail", "mail.Send", {"to": "a@b.c"}).result(timeout=60)
    client.pause_queue("mail", reason="lunch")

Each method is one route of the page on the HTTP API. What it answers has its type in `answers`.
"""

from .client import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
