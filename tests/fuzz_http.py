"""Send the HTTP API what no client should send: ``python tests/fuzz_http.py --minutes 5 --seed 1``.

A service without a broker runs in a process of its own on 127.0.0.1. Requests are valid ones that were changed at
random: bodies, headers, methods, paths, chunks, and several of them on one connection. The run fails if a response is
500, if a connection is not answered or closed in time, if the process ends or logs an error, or if valid readings are
not accepted afterwards. The seed is printed; the same seed sends the same requests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from http_helpers import free_port, get, is_ready, post

from service.api.openapi import document

PATIENCE = 15.0  # seconds for a response
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
JSON = "application/json"
BODIES: dict[str, Any] = {
    "/v1/readings": [{"sensor": "a/b", "time": 1767225600.5, "value": 20.1}, {"sensor": "c", "values": [1, 2.5]}],
    "/v1/mutes": {"pattern": "*", "for_s": 60.0, "why": "oil", "by": "me"},
    "/v1/acknowledgements": {"id": "c401598f", "note": "seen", "by": "me"},
    "/v1/acceptances": {"sensor": "a/b", "by": "me"},
    "/v1/names": {"sensor": "a/b", "generation": 0, "state": 0, "name": "idle", "by": "me"},
    "/v1/merges": {"sensor": "a/b", "generation": 0, "state": 0, "into": 1, "by": "me"},
    "/v1/session": {"token": "secret"},
}
# Values as JSON text, right or wrong.
ODD = [
    b"null", b"true", b"-0", b"1e400", b"-1e400", b"1" + b"0" * 400, b"1" + b"0" * 30, b"-9223372036854775809", b"NaN",
    b"Infinity", b"1e-400", b"01", b"0x10", b"1.", b".5", b"+1", b'""', b'"\\ud800"', b'"\\udfff\\ud800"',
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"', b'"\\u0000"', b'"\\x"', b'"' + b"x" * 70_000 + b'"', '"\u202e\u2028\U0001f600"'.encode(), b"[]",
    b"{}", b"[" * 5000 + b"]" * 5000, b'{"a":' * 3000 + b"1" + b"}" * 3000, b"[" * 100_000, b'"2026-01-01T00:00:00Z"',
    b'"9999-12-31T23:59:60Z"', b'"' + b"/" * 300 + b'"', b'"../../etc/passwd"', b'"%00%ff"', b'"[a-"', b'"**?["',
]  # fmt: skip
KINDS = [
    JSON,
    "application/x-ndjson",
    "application/json; charset=utf-16",
    "text/plain",
    "",
    "application/json;" * 50,
    "ü",
]
# Parts of paths and options.
PARTS = [
    "a/b", "c", "%00", "%ff", "%2F", "..%2f..", "history", "a/history", "x" * 3000, "1", "-1", "9" * 30, "%", "%zz",
    "newest", "unusual", "%F0%9F%98%80", "*", "[", "%ED%A0%80", "", ";", "a%20b", "\\", "{sensor}",
]  # fmt: skip
NAMES = [
    "Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Encoding", "Content-Length", "Content-Type",
    "Cookie", "Expect", "Host", "If-None-Match", "Last-Event-ID", "Origin", "Range", "Referer", "Sec-Fetch-Site", "TE",
    "Transfer-Encoding", "Upgrade", "X-Forwarded-For", "X-Forwarded-Proto",
]  # fmt: skip
VALUES = [
    b"", b"close", b"keep-alive", b"chunked", b"gzip", b"gzip, chunked", b"100-continue", b"websocket", b"h2c", b"-1",
    b"0", b"5", b"99999999999999999999", b"1,1", b"localhost", b"evil.example", b"[", b"[::1", b"a:b:c", b"null", b"*",
    b"http://[", b"http://localhost", b"Bearer \xff", b"Bearer x", b"Basic Og==", b"ishsmm_session=1.2", b"=;;=",
    b"\xff",
    b"0-0", b"cross-site", b"same-origin", b"ff-9999999999999999999", b"bytes=0-1", b"1.2.3.4, ,\xfe", b"x" * 9000,
]  # fmt: skip


class Failed(Exception):
    """Something that must not happen."""


class Fuzzer:
    """Random requests to one port."""

    def __init__(self, port: int, seed: int) -> None:
        self._port, self._rng = port, random.Random(seed)
        self.statuses: Counter[str] = Counter()
        paths = document(has_view=True)["paths"]
        self._routes = [(path, method.upper()) for path, methods in paths.items() for method in methods]

    def step(self) -> None:
        """Send one connection's worth, and look at what comes back."""
        rng = self._rng
        act = rng.choice(
            [self._changed, self._changed, self._changed, self._chunks, self._pipeline, self._bomb, self._noise]
        )
        sent = act()
        try:
            self._look(self._exchange(sent), sent)
        except TimeoutError:
            raise Failed(f"no response and no end within {PATIENCE:g} s to {_shown(sent)}") from None

    def _look(self, read: bytes, sent: bytes) -> None:
        found = [status.decode() for status in _STATUS.findall(read)] or ["closed"]
        self.statuses.update(found)
        if "500" in found:
            raise Failed(f"500 to {_shown(sent)}: {_shown(read)}")

    def _exchange(self, sent: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE) as connection:
            deadline = time.monotonic() + PATIENCE
            read = b""
            try:
                connection.sendall(sent)
                if b"/v1/stream" not in sent:
                    connection.settimeout(0.02)
                    read = self._read(connection, deadline, once=True)
                    connection.shutdown(socket.SHUT_WR)  # a request without an end has one now
                    connection.settimeout(PATIENCE)
                    read += self._read(connection, deadline)
                else:
                    read = connection.recv(65536)
            except (ConnectionResetError, BrokenPipeError):
                pass  # refused before all of it was sent
            except OSError as error:
                if isinstance(error, TimeoutError):
                    raise
            return read

    @staticmethod
    def _read(connection: socket.socket, deadline: float, once: bool = False) -> bytes:
        read = b""
        while time.monotonic() < deadline:
            try:
                piece = connection.recv(65536)
            except TimeoutError:
                if once:
                    return read
                raise
            if not piece:
                return read
            read += piece
        raise TimeoutError

    # Requests

    def _changed(self) -> bytes:
        """One request with some things changed."""
        path, method = self._rng.choice(self._routes)
        return self._request(path, method, self._body(path) if method == "POST" or self._rng.random() < 0.1 else b"")

    def _request(self, path: str, method: str, body: bytes, *, framing: str = "length") -> bytes:
        rng = self._rng
        target = path.replace("{sensor}", self._name())
        if rng.random() < 0.3:
            target += "?" + "&".join(f"{self._option()}={self._name()}" for _ in range(rng.randrange(4)))
        if rng.random() < 0.1:
            method = rng.choice(["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW", "get"])
        headers = [("Host", b"localhost"), ("Connection", b"close")]
        kind = JSON if rng.random() < 0.8 else rng.choice(KINDS)
        headers.append(("Content-Type", kind.encode()))
        if framing == "length":
            headers.append(("Content-Length", str(len(body)).encode()))
        else:
            headers.append(("Transfer-Encoding", b"chunked"))
        while rng.random() < 0.3:
            headers.append((rng.choice(NAMES), rng.choice(VALUES)))
        if rng.random() < 0.1:
            headers.pop(rng.randrange(len(headers)))
        head = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in headers)
        return f"{method} {target} HTTP/1.1\r\n".encode(errors="surrogatepass") + head + b"\r\n" + body

    def _option(self) -> str:
        known = ["after", "before", "limit", "order", "sensor", "status", "search", "sort", "only", "offset", "pattern"]
        return self._rng.choice([*known, "x", "%00", ""])

    def _name(self) -> str:
        return self._rng.choice(PARTS)

    def _body(self, path: str) -> bytes:
        rng = self._rng
        text = self._json(BODIES.get(path, {"x": 1}))
        if path == "/v1/readings" and rng.random() < 0.2:
            text = text.strip(b"[]").replace(b"},", b"}\n")
        if rng.random() < 0.2:
            text = self._damaged(text)
        return text

    def _json(self, value: Any) -> bytes:
        """JSON text of a value, parts of it replaced."""
        rng = self._rng
        if rng.random() < 0.08:
            return rng.choice(ODD)
        if isinstance(value, list):
            return b"[" + b",".join(self._json(one) for one in value * rng.choice([1, 1, 1, 50])) + b"]"
        if not isinstance(value, dict):
            return json.dumps(value).encode()
        entries = [json.dumps(key).encode() + b":" + self._json(one) for key, one in value.items()]
        if rng.random() < 0.1:
            entries.append(rng.choice(entries))  # a key twice
        if rng.random() < 0.1:
            entries.pop(rng.randrange(len(entries)))
        if rng.random() < 0.1:
            entries.append(b'"unknown":' + rng.choice(ODD))
        return b"{" + b",".join(entries) + b"}"

    def _damaged(self, text: bytes) -> bytes:
        rng, damaged = self._rng, bytearray(text)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(damaged) + 1)
            act = rng.randrange(3)
            if act == 0:
                damaged[at:at] = rng.randbytes(rng.randrange(1, 5))
            elif act == 1:
                del damaged[at : at + rng.randrange(1, 20)]
            else:
                damaged[at : at + 1] = rng.randbytes(1)
        return bytes(damaged)

    def _chunks(self) -> bytes:
        """A body in chunks, some of them none."""
        rng, (path, method) = self._rng, self._rng.choice([route for route in self._routes if route[1] == "POST"])
        body = self._body(path)
        chunks = b""
        while body:
            size = rng.randrange(1, len(body) + 1)
            chunks += b"%x\r\n%b\r\n" % (size, body[:size])
            body = body[size:]
        chunks += b"0\r\n" + rng.choice([b"\r\n", b"X-Trailer: 1\r\n\r\n", b"", b"\xff\r\n"])
        if rng.random() < 0.7:
            chunks = rng.choice([
                self._damaged(chunks), b"zz\r\n", b"-1\r\n\r\n", b"f" * 40 + b"\r\n",
                b"5;" + b"x" * 20_000 + b"\r\nhello\r\n",
                b"5\r\nhel", b"0\r\n\r\n" * 50, b"1\r\nx\r\n" * 3000 + b"0\r\n\r\n",
            ])  # fmt: skip
        return self._request(path, method, chunks, framing="chunked")

    def _pipeline(self) -> bytes:
        """Several requests at once, the last of them cut off sometimes."""
        rng = self._rng
        several = b"".join(self._changed().replace(b"Connection: close\r\n", b"") for _ in range(rng.randrange(2, 12)))
        several = several.replace(b"/v1/stream", b"/v1/events")
        return several[: rng.randrange(len(several))] if rng.random() < 0.5 else several

    def _bomb(self) -> bytes:
        """Many headers, or long ones."""
        rng = self._rng
        line = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n"
        return rng.choice([
            line + b"".join(b"X-%d: y\r\n" % i for i in range(rng.randrange(10, 20_000))) + b"\r\n",
            line + b"X: " + b"y" * rng.randrange(1000, 500_000) + b"\r\n\r\n",
            line + b"X" * rng.randrange(1000, 500_000) + b": y\r\n\r\n",
            line + b" folded\r\n" * rng.randrange(1, 2000) + b"\r\n",
            line + b"Cookie: " + b"a=b; " * rng.randrange(10, 50_000) + b"\r\n\r\n",
            line + b"X: y\n" * 100 + b"\n",
            line * rng.randrange(2, 100) + b"\r\n",
            b"GET /" + b"a/" * rng.randrange(100, 100_000) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ])  # fmt: skip

    def _noise(self) -> bytes:
        """Bytes that once were a request."""
        rng = self._rng
        return rng.choice(
            [rng.randbytes(rng.randrange(1, 5000)), self._damaged(self._changed()), b"\r\n" * 1000, b"\x16\x03\x01"]
        )


def _shown(text: bytes) -> str:
    return repr(text if len(text) < 600 else text[:300] + b" ... " + text[-200:])


def run(folder: Path, seed: int, seconds: float, most: int = 10**9) -> Counter[str]:
    """Fuzz a new service for a time or a number of connections. Returns the statuses seen; raises Failed."""
    port = free_port()
    config, log = folder / "fuzz.toml", folder / "fuzz.log"
    config.write_text(
        f'[source]\nkinds = ["http"]\nstate = "{folder / "fuzz.sqlite"}"\n[limits]\nsensors = 1000\n'
        f"[http]\nport = {port}\nrequests_per_s = 1e6\nheader_timeout_s = 3.0\n",
        encoding="utf-8",
    )
    line = [sys.executable, "-m", "service.cli", "serve", "--config", str(config)]
    with log.open("wb") as written:
        process = subprocess.Popen(line, cwd=folder, env=os.environ, stdout=written, stderr=written)
        try:
            deadline = time.monotonic() + 180.0
            while not is_ready(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise Failed(f"the service does not start: {log.read_text(encoding='utf-8')[-2000:]}")
                time.sleep(0.1)
            fuzzer = Fuzzer(port, seed)
            end = time.monotonic() + seconds
            while time.monotonic() < end and most > 0:
                fuzzer.step()
                most -= 1
                if process.poll() is not None:
                    raise Failed(f"the process ended with {process.returncode}")
            _check(port)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)
    text = log.read_text(encoding="utf-8")
    if '"level": "error"' in text or "Traceback" in text:
        at = text.find('"level": "error"')
        raise Failed(f"the log has an error: {text[max(0, at - 100) :][:3000]}")
    return fuzzer.statuses


def _check(port: int) -> None:
    """The service works as before."""
    start = time.monotonic()
    health = get(port, "/healthz")
    if health.status != 200 or time.monotonic() - start > 1.0:
        raise Failed(f"/healthz: {health.status} after {time.monotonic() - start:.1f} s")
    readings = [{"sensor": "valid", "time": 1767225600 + i, "value": float(i % 3)} for i in range(50)]
    taken = post(port, readings)
    if taken.status != 200 or taken.json["accepted"] != 50:
        raise Failed(f"valid readings afterwards: {taken.status} {taken.body!r}")
    deadline = time.monotonic() + 20.0
    while get(port, "/v1/sensors/valid").status != 200:
        if time.monotonic() > deadline:
            raise Failed("the valid readings reach no detector")
        time.sleep(0.1)


def main() -> int:
    """Fuzz until the time is over."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, help="default: a random one")
    parser.add_argument("--connections", type=int, default=10**9, help="stop after so many")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            statuses = run(Path(folder), seed, 60.0 * arguments.minutes, arguments.connections)
        except Failed as failed:
            print(f"FAILED with seed {seed}: {failed}", file=sys.stderr)
            return 1
    print(f"{statuses.total():,} responses: {', '.join(f'{n:,} x {status}' for status, n in statuses.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
