"""TLS to a Redis as the supervisor does it, for the client redis-py: names of files as they stand, and one CA."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Options in the query of a URL that name files, as redis-py calls them.
FILES = {"ca": "ssl_ca_certs", "cert": "ssl_certfile", "key": "ssl_keyfile"}


def options(url: str) -> dict[str, str]:
    """The options for the files of the URL. In a URL some versions of redis-py decode them once, others twice.

    >>> options("rediss://host/0?ca=/etc/a+b%20c.pem&protocol=resp3")
    {'ssl_ca_certs': '/etc/a+b%20c.pem'}
    """
    pairs = (pair.partition("=")[::2] for pair in url.partition("?")[2].split("&"))
    return {FILES[name]: value for name, value in pairs if name in FILES}


def pin(pool: Any) -> None:
    """Has connections of the pool trust the CA that they are given, if any: redis-py trusts those of the system besides."""
    if pool.connection_kwargs.get("ssl_ca_certs") is not None:
        pool.connection_class = _pinned(pool.connection_class)


def _pinned(kind: Any) -> Any:
    import importlib

    # No `import`: an application that has no redis-py may be checked by mypy.
    tls: Any = importlib.import_module("redis.connection").SSLConnection

    class Pinned(kind):  # type: ignore[misc]
        def _connect(self) -> Any:
            import ssl

            sock: Any = super(tls, self)._connect()
            try:
                context = ssl.create_default_context(cafile=self.ca_certs)
                context.check_hostname, context.verify_mode = self.check_hostname, self.cert_reqs
                if self.certfile:
                    context.load_cert_chain(self.certfile, self.keyfile)
                return context.wrap_socket(sock, server_hostname=self.host)
            except BaseException:
                sock.close()
                raise

    return Pinned
