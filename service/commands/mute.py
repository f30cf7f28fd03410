"""``ishsmm-stream mute``: sinks hear nothing of some sensors for a time, during maintenance for example."""

from __future__ import annotations

import argparse

from service.commands._operations import add_common, open_operations, who


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("pattern", metavar="PATTERN", help="sensors whose names match (* any text, ? one character)")
    ends = parser.add_mutually_exclusive_group(required=True)
    ends.add_argument("--for", dest="span", metavar="SPAN", help="how long: 90m, 2h, 1h30m, 3d")
    ends.add_argument("--until", metavar="TIME", help="2026-01-31T08:00:00Z; without a zone it is local time")
    parser.add_argument("--from", dest="since", metavar="TIME", help="when it begins (default: now)")
    parser.add_argument("--why", default="", metavar="TEXT", help="the reason, for others")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Mute, and say so."""
    from service.operations import actions

    now = actions.now()
    since = now if arguments.since is None else actions.time_of(arguments.since)
    if arguments.span is not None:
        until = since + int(actions.seconds_of(arguments.span) * 1e6)
    else:
        until = actions.time_of(arguments.until)
    with open_operations(arguments) as service:
        said = actions.mute(service, arguments.pattern, since, until, arguments.why, who(arguments))
        names = service.sensors()
    print(f"muted: {actions.described(said, now)}")
    matching = actions.matching(said.pattern, names)
    print(f"{matching:,} of {len(names):,} sensors match" if matching else "no sensor matches so far")
    return 0
