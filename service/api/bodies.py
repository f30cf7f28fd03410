"""The body of POST /v1/readings: a reading, a list of them, or a line for each. All are taken or none."""

from __future__ import annotations

import msgspec

from service.runtime.posting import PostedReading
from service.wire.decoding import Decoder
from service.wire.readings import BadRecord

JSON = ("application/json",)
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")

_list = msgspec.json.Decoder(list[msgspec.Raw])


class BadBody(Exception):
    """Why nothing of a body is taken; ``reading``: which of its readings is bad, None where it is all of it."""

    def __init__(self, reason: str, detail: str, reading: int | None = None) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.reading = reason, detail, reading


def posted_readings(body: bytes, is_lines: bool, decode: Decoder, received: int) -> list[PostedReading]:
    """The readings of a body in our own format. ``received``: milliseconds, for those that have no time."""
    values = _lines(body) if is_lines else _entries(body)
    found = []
    for number, value in enumerate(values):
        try:
            (reading,) = decode(None, value, received)
        except BadRecord as bad:
            raise BadBody(bad.reason, bad.detail, number) from None
        found.append(PostedReading(reading.sensor, value))
    if not found:
        raise BadBody("empty", "the body holds no reading")
    return found


def _lines(body: bytes) -> list[bytes]:
    return [line for line in body.split(b"\n") if line.strip()]


def _entries(body: bytes) -> list[bytes]:
    text = body.strip()
    if not text.startswith(b"["):
        return [text] if text else []
    try:
        return [bytes(entry) for entry in _list.decode(text)]
    except (ValueError, RecursionError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise BadBody("not_utf8", f"byte {error.start} cannot be decoded") from None
        raise BadBody("not_json", str(error)) from None
