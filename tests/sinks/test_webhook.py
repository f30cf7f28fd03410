"""Events posted to a real server on this machine."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from events import change

from service.settings.sinks import SinkSettings
from service.sinks import DeliveryRefused, TryAgain, WebhookSink, open_sink
from service.sinks.sink import outgoing
from service.wire import messages


class Receiver(ThreadingHTTPServer):
    """Answers as it is told to, and keeps what came."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.headers, self.body = 200, {}, b""
        self.hangs = threading.Event()
        self.seen = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/hook?key=hunter2"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        if self.server.status == 0:
            self.server.hangs.wait(10)
            return
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_POST

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.hangs.set()
    server.shutdown()
    server.server_close()


EVENT = change("a", revision=3)
OUT = outgoing(EVENT, messages.encode(EVENT))


def test_an_event_is_posted_with_its_key(receiver):
    WebhookSink(receiver.url).send(OUT)
    ((method, path, headers, body),) = receiver.seen
    assert (method, path) == ("POST", "/hook?key=hunter2")
    assert body == messages.encode(EVENT)
    assert headers["Content-Type"] == "application/json"
    assert headers["Idempotency-Key"] == headers["Webhook-Id"] == f"{EVENT.id}.3"
    assert "Authorization" not in headers
    assert "Webhook-Signature" not in headers


@pytest.mark.parametrize(
    ("secret", "key"), [("plain", b"plain"), ("whsec_" + base64.b64encode(b"\x00\xff" * 8).decode(), b"\x00\xff" * 8)]
)
def test_a_token_and_a_signature_are_sent(receiver, secret, key):
    WebhookSink(receiver.url, token="t0ken", secret=secret, now=lambda: 1700000000.9).send(OUT)
    headers, body = receiver.seen[0][2:]
    assert headers["Authorization"] == "Bearer t0ken"
    assert headers["Webhook-Timestamp"] == "1700000000"
    signed = f"{headers['Webhook-Id']}.1700000000.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["Webhook-Signature"] == f"v1,{expected}"


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_success_is_delivered(receiver, status):
    receiver.status = status
    WebhookSink(receiver.url).send(OUT)


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422])
def test_a_request_that_is_wrong_is_refused_with_what_the_receiver_says(receiver, status):
    receiver.status, receiver.body = status, b"no such\nroute"
    with pytest.raises(DeliveryRefused, match=f"the answer is {status} .*: no such route"):
        WebhookSink(receiver.url).send(OUT)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(receiver, status):
    """As a GET it would be answered with 200, and nobody would have been told."""
    receiver.status, receiver.headers = status, {"Location": "/elsewhere"}
    with pytest.raises(DeliveryRefused, match=str(status)):
        WebhookSink(receiver.url).send(OUT)
    assert len(receiver.seen) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(receiver, status):
    receiver.status, receiver.headers = status, {"Retry-After": "7"}
    with pytest.raises(TryAgain, match=str(status)) as caught:
        WebhookSink(receiver.url).send(OUT)
    assert caught.value.after == 7.0


@pytest.mark.parametrize(("asked", "waits"), [("3600", 30.0), ("-1", 0.0), ("Fri, 31 Dec 1999 23:59:59 GMT", 0.0)])
def test_the_receiver_does_not_decide_alone_how_long_to_wait(receiver, asked, waits):
    receiver.status, receiver.headers = 503, {"Retry-After": asked}
    with pytest.raises(TryAgain) as caught:
        WebhookSink(receiver.url).send(OUT)
    assert caught.value.after == waits


def test_silence_is_tried_again(receiver):
    receiver.status = 0
    with pytest.raises(TryAgain, match="timed out"):
        WebhookSink(receiver.url, timeout=0.2).send(OUT)


def test_nobody_there_is_tried_again(receiver):
    receiver.shutdown()
    receiver.server_close()
    with pytest.raises(TryAgain, match="Connection refused"):
        WebhookSink(receiver.url, timeout=1.0).send(OUT)


def test_secrets_come_from_files_or_the_environment_and_show_nowhere(tmp_path, receiver):
    (tmp_path / "url").write_text(receiver.url + "\n")
    (tmp_path / "token").write_text("t0ken\n")
    settings = SinkSettings(
        kind="webhook", name="pager", url_file=tmp_path / "url", token_file=tmp_path / "token", secret_variable="S"
    )
    open_sink(settings, {"S": "s3cret"}).send(OUT)
    headers = receiver.seen[0][2]
    assert headers["Authorization"] == "Bearer t0ken"
    assert "Webhook-Signature" in headers
    given = SinkSettings(kind="webhook", name="pager", url=receiver.url)
    for shown in (repr(settings), repr(given), given.where, settings.where):
        assert not any(secret in shown for secret in ("hunter2", "t0ken", "s3cret"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "webhook"}, "takes url or url_file, one of the two"),
        ({"kind": "webhook", "url": "ftp://host/x"}, "url takes an address such as"),
        ({"kind": "webhook", "url": "https://user:pw@host/x"}, "url takes no user and password"),
        ({"kind": "webhook", "url": "http://h/", "token_variable": "A", "token_file": "b"}, "keep one of them"),
        ({"kind": "webhook", "url": "http://h/", "attempts": 20}, "lower attempts or timeout_s"),
        ({"kind": "webhook", "url": "http://h/", "path": "x"}, "path is for kind = 'lines', not 'webhook'"),
        ({"kind": "lines"}, "path is missing"),
        ({"kind": "stdout", "url": "http://h/"}, "url is for kind = 'webhook'"),
        ({"kind": "stdout", "name": "a b"}, "name takes up to 64"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(options, said):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        SinkSettings(**{"name": "x", **options})
    assert said in str(caught.value)
    assert "pw" not in str(caught.value)


def test_a_secret_that_is_not_there_is_named(tmp_path):
    settings = SinkSettings(kind="webhook", name="pager", url="http://h/", token_variable="PAGER_TOKEN")
    with pytest.raises(ValueError, match="sink 'pager': token_variable: the environment has no variable PAGER_TOKEN"):
        open_sink(settings, {})
    settings = SinkSettings(kind="webhook", name="pager", url="http://h/", secret_file=tmp_path / "no")
    with pytest.raises(ValueError, match=r"sink 'pager': secret_file .*: No such file"):
        open_sink(settings, {})
