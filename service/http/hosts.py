"""Which hosts and origins a request may name.

A page of another site can make a browser send requests to this machine. Once its own name resolves to 127.0.0.1 (DNS
rebinding), it can read the responses. Such a request has the foreign name as its Host, and as its Origin if it changes
anything.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

ANY = "*"
_PORTS = {"http": 80, "https": 443}
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def check_hosts(hosts: Sequence[str]) -> None:
    """Raise ValueError unless all are names or addresses without scheme, port and path, or ``*``."""
    for host in hosts:
        if host == ANY:
            continue
        name = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
        if (
            not name
            or ("/" in name or "*" in name or "@" in name or any(c.isspace() for c in name))
            or (":" in name and not _is_address(name))
        ):
            raise ValueError(
                f"hosts takes names such as 'sensors.example.com', without scheme and port, or '*', got {host!r}"
            )


class Hosts:
    """``hosts`` are the names allowed beside this machine's own; none given: any if there is a token.

    A token makes foreign names harmless: a foreign page cannot send it, and session cookies belong to one name. ``key``
    is the option to name in messages.
    """

    def __init__(self, hosts: Sequence[str], has_token: bool, key: str = "http.hosts") -> None:
        self._names = {_normal(host) for host in hosts if host != ANY}
        self._allows_any = ANY in hosts or (not hosts and has_token)
        self._key = key

    def problem(self, method: str, headers: Mapping[bytes, bytes]) -> tuple[str, str] | None:
        """Return the reason and the detail for which a request is refused, None if it is not."""
        host = headers.get(b"host", b"").decode("latin-1").strip()
        name = _split(host)[0]
        # only programs leave the header out
        if host and not (self._allows_any or name in self._names or _is_loopback(name)):
            shown = repr((name or host)[:100])
            remedy = f"add {shown} to {self._key} if this service is reached by that name"
            return "wrong_host", f"the Host header names {shown}, which is not allowed: {remedy}"
        if method in _SAFE_METHODS:
            return None
        if headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
            return "cross_site", "a page of another site sent this request: use the service's own page, or a program"
        origin = headers.get(b"origin")
        if origin is not None and not self._is_own(origin.decode("latin-1").strip(), host):
            shown = origin.decode("latin-1")[:100]
            remedy = f"add its host to {self._key} if it is the service's own page behind a proxy"
            return "cross_site", f"the Origin {shown!r} is not the Host {host[:100]!r}: {remedy}"
        return None

    def _is_own(self, origin: str, host: str) -> bool:
        scheme, _, place = origin.lower().partition("://")
        if scheme not in _PORTS:
            return False
        name, port = _split(place)
        own_name, own_port = _split(host)
        if name in self._names:
            return True
        default = str(_PORTS[scheme])
        return bool(name) and (name, port or default) == (own_name, own_port or default)


def _split(place: str) -> tuple[str, str]:
    """Return the name and the port of ``name:port``; both are empty if it is malformed."""
    try:
        parts = urlsplit(f"//{place}")
        port = parts.port
    except ValueError:
        return "", ""
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc or not parts.hostname:
        return "", ""
    return _normal(parts.hostname), "" if port is None else str(port)


def _normal(name: str) -> str:
    name = name.removeprefix("[").removesuffix("]").lower()
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return ipaddress.ip_address(name).is_loopback if _is_address(name) else name == "localhost"
