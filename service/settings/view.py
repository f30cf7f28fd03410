"""``[view]``: what the view keeps of the fleet, and where it answers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from service.settings.times import Seconds


class ViewSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Host, token and limits are those of ``[http]``."""

    # of `ishsmm-stream view`, so that it can run beside a worker; without a broker http.port serves the page as well
    port: Annotated[int, Meta(ge=1, le=65535)] = 9110
    # numbers of each sensor that are remembered, over all of its channels
    history: Annotated[int, Meta(ge=60, le=100_000)] = 1200
    # how far back events are read at the start
    events_back_s: Seconds = 8 * 86_400.0
