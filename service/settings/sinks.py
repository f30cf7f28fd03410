"""``[[sinks]]``: who else is told of events, and of which."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from service.settings import budgets
from service.settings.times import Seconds

CHANGES = ("provisional", "confirmed", "relocated", "retracted")
ABOUT_STATES = ("entered", "new_state", "spike")
Status = Literal[
    "raised",
    "cleared",
    "provisional",
    "confirmed",
    "relocated",
    "retracted",
    "entered",
    "new_state",
    "spike",
    "silent",
    "back",
    "new_generation",
    "accepted",
    "topic_recreated",
    "set_aside",
]
STATUSES: tuple[str, ...] = get_args(Status)
INCIDENT = "incident"
UNLIMITED = "unlimited"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Options that are for one kind only, all but the sink's own.
_OF_KIND = {
    "lines": ("path",),
    "stdout": (),
    "webhook": ("url", "url_file", "token_file", "token_variable", "secret_file", "secret_variable", "timeout_s"),
}
# A consumer that says nothing for five minutes is taken for dead: all attempts at one event have to be over by then.
_LONGEST_ATTEMPTS = 240.0
LONGEST_WAIT = 30.0


class SinkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One receiver of events. Secrets are in files or in variables of the environment, never here."""

    kind: Literal["lines", "stdout", "webhook"]
    # its own among the sinks: its place in the events is kept under it
    name: str
    # statuses of alarms, changes and news about states, kinds of notices, and "incident"; none given: alarms and
    # notices, and incidents if at_most is given
    only: tuple[Status | Literal["incident"], ...] = ()
    # of sensors whose names match, and that have these labels
    sensors: str = "*"
    labels: dict[str, str | bool] = {}
    # raised alarms and incidents, such as "20 per day": the most unusual ones are sent; "unlimited": all, whatever the
    # fleet's at_most; None: the fleet's
    at_most: str | None = None
    # older events are passed over
    max_age_s: Seconds = 900.0
    # what an event's age is counted from: its readings' time, if that is earlier, or its publication alone
    age: Literal["readings", "publication"] = "readings"
    # at one event, the first included
    attempts: Annotated[int, Meta(ge=1, le=20)] = 5
    # before the second attempt; then twice as long each time, up to 30 s
    backoff_s: Seconds = 1.0

    # lines
    path: Path | None = None

    # webhook
    url: str | None = None
    url_file: Path | None = None
    # sent as "Authorization: Bearer ..."
    token_file: Path | None = None
    token_variable: str | None = None
    # signs what is sent
    secret_file: Path | None = None
    secret_variable: str | None = None
    timeout_s: Seconds = 10.0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name takes up to 64 letters, digits, dots, dashes and underscores, got {self.name!r}")
        self._refuse_options_of_others()
        if self.at_most != UNLIMITED:
            budgets.check(self.at_most, "at_most")
        if INCIDENT in self.only and self.labels:
            raise ValueError("only = 'incident' takes no labels: an incident has none")
        if self.kind == "lines" and self.path is None:
            raise ValueError("path is missing: kind = 'lines' takes the path of a file")
        if self.kind == "webhook":
            if (self.url is None) == (self.url_file is None):
                raise ValueError("kind = 'webhook' takes url or url_file, one of the two")
            for what in ("token", "secret"):
                variable = getattr(self, f"{what}_variable")
                if getattr(self, f"{what}_file") is not None and variable is not None:
                    raise ValueError(f"{what}_file and {what}_variable are given: keep one of them")
                if variable is not None and not _VARIABLE.fullmatch(variable):  # it may be the secret itself
                    raise ValueError(
                        f"{what}_variable takes the name of an environment variable: letters, digits and underscores, "
                        "got something else"
                    )
            if self.url is not None:
                _check_url(self.url)
        if self.longest_s > _LONGEST_ATTEMPTS:
            raise ValueError(
                f"attempts = {self.attempts} may take {self.longest_s:.0f} s at one event, {_LONGEST_ATTEMPTS:.0f} s "
                "is the most: lower attempts or timeout_s"
            )

    def _refuse_options_of_others(self) -> None:
        default = {field.name: field.default for field in msgspec.structs.fields(type(self))}
        for kind, names in _OF_KIND.items():
            for name in names:
                if kind != self.kind and getattr(self, name) != default[name]:
                    raise ValueError(f"{name} is for kind = {kind!r}, not {self.kind!r}")

    def __repr__(self) -> str:  # without the address: with many services it is a secret by itself
        return f"SinkSettings(kind={self.kind!r}, name={self.name!r})"

    @property
    def limit(self) -> budgets.Budget | None:
        """How many raised alarms and incidents are sent at most; None: all."""
        return None if self.at_most in (None, UNLIMITED) else budgets.parse(str(self.at_most))

    @property
    def gets_incidents(self) -> bool:
        """Whether incidents are sent. They have no labels."""
        return INCIDENT in self.only if self.only else self.limit is not None and not self.labels

    @property
    def longest_s(self) -> float:
        """How long all attempts at one event may take."""
        if self.kind == "webhook":  # where the receiver says how long to wait
            return (self.attempts - 1) * LONGEST_WAIT + self.attempts * self.timeout_s
        return sum(min(self.backoff_s * 2.0**i, LONGEST_WAIT) for i in range(self.attempts - 1))

    @property
    def where(self) -> str:
        """Where it sends to, for people; no secret."""
        if self.kind == "lines":
            return str(self.path)
        if self.kind == "stdout":
            return "stdout"
        return str(self.url_file) if self.url is None else "{0.scheme}://{0.netloc}/...".format(urlsplit(self.url))

    def address(self) -> str:
        """The webhook's address."""
        if self.url is not None:
            return self.url
        assert self.url_file is not None
        address = _secret_in(self.name, "url_file", self.url_file)
        try:
            _check_url(address)
        except ValueError as error:
            raise ValueError(f"sink {self.name!r}: url_file {self.url_file}: {error}") from None
        return address

    def secret(self, what: Literal["token", "secret"], environ: Mapping[str, str]) -> str | None:
        """The bearer token or the signing secret, if there is one."""
        file, variable = getattr(self, f"{what}_file"), getattr(self, f"{what}_variable")
        if file is not None:
            text = _secret_in(self.name, f"{what}_file", file)
            if what == "token" and not text.isascii():
                raise ValueError(f"sink {self.name!r}: token_file {file}: it takes one line of ASCII text")
            return text
        if variable is None:
            return None
        if not environ.get(variable):
            raise ValueError(f"sink {self.name!r}: {what}_variable: the environment has no variable {variable}")
        text = environ[variable].strip()
        if not text or not text.isprintable() or (what == "token" and not text.isascii()):
            raise ValueError(f"sink {self.name!r}: {what}_variable: the variable {variable} takes one line of text")
        return text


def _check_url(url: str) -> None:
    """ValueError, without the address in it, unless it is one that can be posted to."""
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right or not url.isascii() or any(c.isspace() for c in url):
        raise ValueError("url takes an address such as https://host/path")
    if parts.username or parts.password:
        raise ValueError("url takes no user and password: give token_file or token_variable")


def _secret_in(sink: str, name: str, path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(f"sink {sink!r}: {name} {path}: {reason}") from None
    if not text or not text.isprintable():
        raise ValueError(f"sink {sink!r}: {name} {path}: it takes one line of text")
    return text
