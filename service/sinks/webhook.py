"""Events posted to an address, one request each.

A request may come twice. ``Idempotency-Key`` and ``webhook-id`` are the same then, and for no other revision or event.
With a secret, requests are signed as Standard Webhooks describes, for which there are libraries in most languages:
``webhook-signature`` is "v1," and the base64 of HMAC-SHA256 over "id.timestamp.body".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from typing import IO

import ishsmm_stream
from service.settings.sinks import SinkSettings
from service.sinks.sink import DeliveryRefused, Outgoing, TryAgain

# Answers that say: later, perhaps. All of 5xx do.
_LATER = (408, 425, 429)
_LONGEST_AFTER = 30.0
_SECRET_PREFIX = "whsec_"
_MOST_WORDS = 200


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirected, a POST would become a GET, which tells nobody anything."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


class WebhookSink:
    """Posts JSON. 2xx is delivered; 408, 425, 429, 5xx and silence may be tried again; all else is refused."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 10.0,
        token: str | None = None,
        secret: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        self._timeout = timeout
        self._token = token
        self._secret = None if secret is None else _secret_bytes(secret)
        self._now = now
        self._opener = urllib.request.build_opener(_NoRedirects)

    def send(self, event: Outgoing) -> None:
        """One request."""
        request = urllib.request.Request(self._url, event.body, self._headers(event), method="POST")
        try:
            with self._opener.open(request, timeout=self._timeout):
                return
        except urllib.error.HTTPError as error:
            with error:
                said = self._masked(f"the answer is {error.code} {error.reason}{_words(error)}")
            if error.code in _LATER or error.code >= 500:
                raise TryAgain(said, _after(error.headers.get("Retry-After"))) from None
            raise DeliveryRefused(said) from None
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise TryAgain(f"no answer: {str(reason) or type(reason).__name__}") from None

    def close(self) -> None:
        """Nothing stays open between requests."""

    def _masked(self, said: str) -> str:
        """What a receiver says, which may be what it was told: the token, or an address that is a secret by itself."""
        parts = urllib.parse.urlsplit(self._url)
        for secret in (self._url, f"{parts.path}?{parts.query}", parts.path, parts.query, self._token):
            if secret and secret != "/":
                said = said.replace(secret, "***")
        return said

    def _headers(self, event: Outgoing) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"ishsmm-stream/{ishsmm_stream.__version__}",
            "Idempotency-Key": event.key,
            "Webhook-Id": event.key,
        }
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if self._secret is not None:
            stamp = str(int(self._now()))
            signed = b".".join((event.key.encode(), stamp.encode(), event.body))
            signature = base64.b64encode(hmac.digest(self._secret, signed, hashlib.sha256)).decode()
            headers |= {"Webhook-Timestamp": stamp, "Webhook-Signature": f"v1,{signature}"}
        return headers


def _secret_bytes(secret: str) -> bytes:
    """As the standard writes them, base64 after a prefix; any other text is taken as it is."""
    if not secret.startswith(_SECRET_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"the webhook's secret begins with {_SECRET_PREFIX} and is no base64 after it") from None


def _after(text: str | None) -> float:
    """Seconds that the receiver asks to wait, as far as we do."""
    return min(float(text), _LONGEST_AFTER) if text is not None and text.isdecimal() else 0.0


def _words(error: urllib.error.HTTPError) -> str:
    """The beginning of what the receiver says about it."""
    try:
        text = " ".join(error.read(4 * _MOST_WORDS).decode(errors="replace").split())
    except (OSError, http.client.HTTPException):
        return ""
    return f": {text[:_MOST_WORDS]}" if text else ""


def open_sink(settings: SinkSettings, environ: Mapping[str, str]) -> WebhookSink:
    """Read the address and the secrets that the settings name."""
    return WebhookSink(
        settings.address(),
        timeout=settings.timeout_s,
        token=settings.secret("token", environ),
        secret=settings.secret("secret", environ),
    )
