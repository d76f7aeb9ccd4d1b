"""How this process speaks to a supervisor: where it is, and for how long to wait while it is away."""

from __future__ import annotations

from ..checks import seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional


class _Settings:
    #: The supervisor's socket; None = as the environment says.
    socket: Optional[str] = None
    #: The supervisor's address elsewhere; None = as the environment says.
    url: Optional[str] = None
    #: The token for that address, or the file that holds it.
    token: Optional[str] = None
    token_file: Optional[str] = None
    #: Whether pytest has loaded our plugin.
    is_under_pytest: bool = False
    #: Seconds for which a supervisor may be away, as over a stop and a start.
    patience: float = 30.0


settings: _Settings = _Settings()


def configure(*, socket: Optional[str] = None, url: Optional[str] = None, token: Optional[str] = None,
              token_file: Optional[str] = None, patience: Optional[float] = None) -> None:
    """Sets how this process speaks to a supervisor; what is not given stays as it is.

    `patience` is for how many seconds a put, or a wait for a result, goes on while the supervisor is away, as over an
    ordered stop and start: 30 unless set, 0 for not at all. `socket` is the supervisor's socket, whatever the environment
    names; the program, which puts into the store of a stopped one and reads logs, can be told of it only if it is called
    ctl.sock. `url` is the address of a supervisor elsewhere, ``http://HOST:PORT``, with `token` or the `token_file` that
    holds it. The later of `socket` and `url` holds.

    >>> configure(patience=30)
    """
    if socket is not None and url is not None:
        raise ValueError("a supervisor is at a socket or at a url, not at both")
    if patience is not None:
        settings.patience = seconds("patience", patience)
    if token is not None:
        settings.token = token
    if token_file is not None:
        settings.token_file = str(token_file)
    if socket is not None:
        settings.socket, settings.url = str(socket), None
    if url is not None:
        settings.url, settings.socket = url, None
