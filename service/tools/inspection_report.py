"""Where a sensor stands, for people."""

from __future__ import annotations

from rich.console import Console

from service.sensors.wording import reason_words
from service.tools.inspection import Inspection
from service.tools.tail import percent
from service.tools.terminal import show as show_table
from service.tools.terminal import table
from service.wire.messages import Place

MOST_ROWS = 20


def show(out: Console, found: Inspection, most: int | None) -> None:
    """The answer for people."""

    for name, text in described(found):
        out.print(f"{name:<15}{text}", soft_wrap=True)
    now = found.posterior
    out.print()
    if now.change_points:
        points = table("change point", "time", "probability", "90% interval", left=("time", "90% interval"))
        for point in now.change_points[-(most or 10**9) :]:
            low, high = _time(found, point.low), _time(found, point.high)
            interval = f"{point.low.index} to {point.high.index}"
            if "-" not in (low, high) and low != high:
                interval += f"  ({low} to {high})"
            time = _time(found, Place(point.index, point.time))
            points.add_row(str(point.index), time, percent(point.probability or 0.0), interval)
        show_table(out, points)
    else:
        out.print("no change points with a probability of 50 % or more")
    if now.changes:
        out.print()
        changes = table("change", "announced at", "time", "change at", "status", left=("change", "time", "status"))
        for change in now.changes[-(most or 10**9) :]:
            at = change.raised_at
            changes.add_row(change.id, str(at.index), _time(found, at), str(change.index), change.status)
        show_table(out, changes)
    if now.unusual:
        out.print()
        heads = ("alarm", "raised at", "time", "how often", "reasons", "status")
        alarms = table(*heads, left=("alarm", "time", "reasons", "status"))
        for alarm in now.unusual[-(most or 10**9) :]:
            cleared = "open" if alarm.is_open else f"cleared {_short(alarm.cleared)}".removesuffix(" -")
            alarms.add_row(
                alarm.id, str(alarm.raised_at.index), _time(found, alarm.raised_at), rarity_words(alarm.return_period),
                reason_words(alarm.reasons), cleared,
            )  # fmt: skip
        show_table(out, alarms)


def described(found: Inspection) -> list[tuple[str, str]]:
    """Names and what is known under them."""

    now = found.posterior
    unit = f" {now.labels['unit']}" if "unit" in now.labels else ""
    readings = f"{now.accepted:,} readings" + (f" and {now.inserted:,} inserted steps" if now.inserted else "")
    lines = [("sensor", now.sensor + (", silent" if now.is_silent else ""))]
    if now.labels:
        lines.append(
            ("labels", ", ".join(name if value is True else f"{name} {value}" for name, value in now.labels.items()))
        )
    lines.append(("newest", f"{_short(now.time)} UTC, index {now.index}; {readings}, generation {now.generation}"))
    if now.state is not None and now.run_length is not None:
        state, length = now.state, now.run_length
        which = ""
        if found.states_return:
            name = f" ({state.name})" if state.name else ""
            which = f"{state.id}{name} of {now.n_states}, visit {state.visits}: "
        parameters = ", ".join(f"{key} {_number(value)}" for key, value in state.parameters.items())
        lines += [
            ("state", f"{which}{parameters}{unit}"),
            (
                "since",
                f"{_time(found, state.since)}, index {state.since.index}, with probability "
                f"{percent(state.probability or 0.0)}",
            ),
            ("run length", f"{length.median:,} observations, 90 % interval {length.low:,} to {length.high:,}"),
            ("P(change)", f"{percent(now.change_probability or 0.0)} within the last window of readings"),
        ]
    elif now.index is not None:
        lines.append(("state", "none yet: the season is being learned"))
    alarm = next((one for one in now.unusual if one.is_open), None)
    if alarm is not None:
        rarity = f"{reason_words(alarm.reasons)}, {rarity_words(alarm.return_period)}"
        lines.append(("open alarm", f"{rarity}, since {_time(found, alarm.raised_at)}, index {alarm.raised_at.index}"))
    if now.learning:
        lines.append(("unusual now", f"not known yet: {now.learning:,} readings are still to come"))
    else:
        lines.append(("unusual now", rarity_words(now.return_period)))
    if now.forecast is not None:
        lines.append(("forecast", _forecast(found, unit)))
    if found.transform != "none":
        lines.append(("transform", f"{found.transform}: the numbers above are after it"))
    set_ = ", ".join(f"{key} {value}" for key, value in found.settings.items() if value is not None)
    lines += [
        (
            "rule",
            f"{found.rule}: model {found.model}, alarms {found.budget}, changes above {found.alarm_threshold:.6g}; "
            f"{set_}",
        ),
        ("state saved", _saved(found)),
    ]
    if not found.keeps_state:
        lines.append(
            (
                "note",
                f"under this configuration the next reading starts generation {now.generation + 1}: its model, prior, "
                "transform or detector is another one",
            )
        )
    return lines


def rarity_words(period: float | None) -> str:
    """Return how seldom a sensor does something, from its return period in readings.

    >>> rarity_words(1234.5), rarity_words(3.2e6), rarity_words(20.0), rarity_words(None)
    ('1 in 1,200 readings', '1 in 3,200,000 readings', 'usual', '-')
    """
    if period is None:
        return "-"
    # the service does not tell more frequent behaviour apart either
    return f"1 in {float(f'{period:.2g}'):,.0f} readings" if period > 100.0 else "usual"


def _saved(found: Inspection) -> str:
    if found.snapshot_offset is None:
        return f"{found.place}: no snapshot yet, made from {found.replayed:,} records"
    if not found.keeps_state:
        return f"{found.place}, up to offset {found.snapshot_offset:,}, as it was saved"
    since = f"{found.replayed:,} records of the input read since" if found.replayed else "nothing came since"
    return f"{found.place}, up to offset {found.snapshot_offset:,}; {since}"


def _forecast(found: Inspection, unit: str) -> str:
    forecast = found.posterior.forecast
    assert forecast is not None

    def step(number: int) -> str:
        cells = zip(forecast.median[number], forecast.low[number], forecast.high[number], strict=True)
        return ", ".join(f"{_number(mid)} [{_number(low)}, {_number(high)}]" for mid, low, high in cells)

    last = len(forecast.median)
    return f"{step(0)}{unit} next, {step(last - 1)}{unit} {last} observations on (median, 90 % interval)"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _time(found: Inspection, place: Place) -> str:
    return _short(place.time or found.times.get(place.index))


def _short(time: str | None) -> str:
    return "-" if time is None else time[:19].replace("T", " ")
