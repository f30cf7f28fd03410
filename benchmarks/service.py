"""The whole service on a real broker: readings a second, time to an event, restores, changelog traffic, memory.

    python benchmarks/service.py [--quick] [--only throughput,latency,restore,changelog,ied]

The broker is started for the run, on the same machine. The bare loop that throughput is compared with is the same
client with the same settings: it decodes the same JSON and publishes the same bytes in the same transactions, as they
were captured from a run of the service, and infers nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
# This folder last: the file has the name of the package.
sys.path = [path for path in sys.path if Path(path).resolve() != HERE]
sys.path += [str(HERE.parent), str(HERE.parent / "deploy" / "kafka"), str(HERE)]

import local_broker  # noqa: E402
import msgspec  # noqa: E402
import numpy as np  # noqa: E402
from kafka import KafkaConsumer, KafkaProducer  # noqa: E402
from kafka.structs import OffsetAndMetadata, TopicPartition  # noqa: E402
from table import Table  # noqa: E402

from service.composition import KafkaService  # noqa: E402
from service.kafka import own_topics  # noqa: E402
from service.kafka import topics as kafka_topics  # noqa: E402
from service.kafka.changelog import ChangelogReader  # noqa: E402
from service.kafka.connection import Connection  # noqa: E402
from service.kafka.consumer import Subscription  # noqa: E402
from service.kafka.following import follow  # noqa: E402
from service.kafka.input import Commit, connection_of  # noqa: E402
from service.kafka.producer import RECORD_OVERHEAD, Transactions  # noqa: E402
from service.runtime import log  # noqa: E402
from service.runtime.log import Polled  # noqa: E402
from service.runtime.warm_up import settle_interpreter  # noqa: E402
from service.sensors.envelope import changelog_value  # noqa: E402
from service.sensors.inference import infer  # noqa: E402
from service.sensors.rules import prepare_rule  # noqa: E402
from service.sensors.saved import Saved  # noqa: E402
from service.sensors.track import Track  # noqa: E402
from service.settings import Rule, Settings  # noqa: E402
from service.settings.sections import Topics  # noqa: E402
from service.wire import messages  # noqa: E402
from service.wire.readings import Reading  # noqa: E402

PARTITIONS = 4
START = 1_760_000_000
SENSORS = 500
RATE = 2_000
USUAL_COLLECTION, USUAL_SWITCHING = gc.get_threshold(), sys.getswitchinterval()
FOR_EVER = {"retention.ms": "-1"}  # the readings' times lie in the past


# --- sensors and topics ------------------------------------------------------------------------------------------


def values(sensor: int, count: int, every: int = 500, size: float = 5.0) -> np.ndarray:
    """Unit noise; the level jumps up and down ``every`` so many readings, at another time for each sensor."""
    rng = np.random.default_rng([7, sensor])
    steps = (np.arange(count) + int(rng.integers(0, every))) // every % 2
    return np.asarray(100.0 + size * steps + rng.normal(0.0, 1.0, count))


def reading(sensor: int, moment: float, value: float) -> bytes:
    return b'{"sensor":"sensor-%d","time":%.3f,"value":%.4f}' % (sensor, moment, value)


def send_backlog(connection: Connection, topic: str, sensors: int, count: int) -> None:
    """``count`` readings of each sensor, one a second, keyed; sensors by turns."""
    producer = connection.build(KafkaProducer, batch_size=256 * 1024, linger_ms=20, metrics_enabled=False)
    columns = [values(sensor, count) for sensor in range(sensors)]
    for i in range(count):
        for sensor in range(sensors):
            producer.send(
                topic, reading(sensor, START + i, columns[sensor][i]), b"sensor-%d" % sensor,
                partition=sensor % PARTITIONS, timestamp_ms=1000 * (START + i),
            )  # fmt: skip
        if i % 50 == 49:
            producer.flush()
    producer.flush()
    producer.close()


def make_settings(bootstrap: list[str], folder: Path, name: str, topic: str, **sections: Any) -> Settings:
    """Settings with output topics of their own, which are made."""
    plain: dict[str, Any] = {
        "kafka": {"bootstrap": bootstrap, "group": name, "topics": [topic], "start_from": "earliest"},
        "topics": {kind: f"{name}.{kind}" for kind in Topics().names},
        "mapping": {"partitioned_by_sensor": True},
        "worker": {"store": folder / "store"},
        "limits": {"memory_mb": 16_384},
        "http": {"port": 0},
    }
    for section, options in sections.items():
        plain[section] = plain.get(section, {}) | options if isinstance(options, dict) else options
    settings = msgspec.convert(plain, Settings)
    own_topics.create(settings)
    return settings


# --- throughput --------------------------------------------------------------------------------------------------


class Cycle(NamedTuple):
    """What a transaction of the service held."""

    consumed: int  # records, up to and with this cycle
    sent: list[tuple[str, bytes, bytes, int]]  # kind, key, value, partition


class Watched(KafkaService):
    """A worker that stops when the backlog is done, takes its time, and can remember what it sent."""

    def __init__(self, settings: Settings, total: int, capture: bool = False) -> None:
        super().__init__(settings)
        self._total, self._capture = total, capture
        self._consumed = 0
        self.began = self.ended = 0.0
        self.cycles: list[Cycle] = []
        self._poll, self._commit = self.records.poll, self.records.commit
        self.records.poll = self._watch_poll  # type: ignore[method-assign]
        self.records.commit = self._watch_commit  # type: ignore[method-assign]

    def _watch_poll(self, seconds: float) -> Polled:
        polled = self._poll(seconds)
        if polled.records and not self.began:
            self.began = time.perf_counter()
        self._consumed += sum(map(len, polled.records.values()))
        return polled

    def _watch_commit(self, cycle: log.Cycle) -> None:
        if self._capture and not self.ended:
            sent = [(one.kind, one.key, one.encoded(), number) for number, one in cycle.outputs]
            changelog = self.records._changelog_records(cycle.snapshots)
            sent += [("changelog", key, value, number) for number, key, value in changelog]
            self.cycles.append(Cycle(self._consumed, sent))
        self._commit(cycle)
        if self._consumed >= self._total and not self.ended:
            self.ended = time.perf_counter()
            self.stop()


class _Plain(msgspec.Struct, gc=False):
    sensor: str
    time: float
    value: float


def bare_loop(settings: Settings, total: int, cycles: list[Cycle]) -> float:
    """Seconds that the client alone takes."""
    connection, kafka, names = connection_of(settings), settings.kafka, settings.topics.names
    subscription = Subscription(
        connection, kafka.group, kafka.topics, start_from="earliest", max_poll_records=settings.worker.poll_records
    )
    producer = Transactions(connection, f"{kafka.group}-bare")
    decode = msgspec.json.Decoder(_Plain).decode
    consumed, waiting, began = 0, list(reversed(cycles)), 0.0
    while consumed < total:
        records = subscription.poll(settings.worker.cycle_s)
        changes = subscription.take_changes()
        if changes.assigned:
            subscription.locate(changes.assigned)
            subscription.resume(changes.assigned)
        if not records:
            continue
        began = began or time.perf_counter()
        offsets = {}
        for place, taken in records.items():
            for record in taken:
                decode(record.value)
            consumed += len(taken)
            offsets[place] = (taken[-1].offset + 1, '{"unsaved_from":0,"clock":0,"began":0}')
        producer.begin()
        while waiting and (waiting[-1].consumed <= consumed or consumed >= total):
            for kind, key, value, number in waiting.pop().sent:
                producer.send(names[kind], key, value, number)
        producer.commit(offsets, subscription.group_metadata())
    took = time.perf_counter() - began
    subscription.close()
    producer.close()
    return took


@contextlib.contextmanager
def interpreter_as_usual() -> Iterator[None]:
    """As in a process in which nobody has settled it."""
    gc.unfreeze()
    gc.set_threshold(*USUAL_COLLECTION)
    sys.setswitchinterval(USUAL_SWITCHING)
    try:
        yield
    finally:
        settle_interpreter()


def throughput(broker: local_broker.Broker, folder: Path, count: int, runs: int, profile: str | None = None) -> None:
    connection, total = Connection(broker.bootstrap), SENSORS * count
    topic = "backlog"
    kafka_topics.create(connection, [kafka_topics.TopicSpec(topic, PARTITIONS, FOR_EVER)])
    send_backlog(connection, topic, SENSORS, count)

    def settings(name: str) -> Settings:
        return make_settings(broker.bootstrap, folder, name, topic)

    first = Watched(settings("capture"), total, capture=True)
    first.run()
    if profile:
        import cProfile

        profiler, watched = cProfile.Profile(), Watched(settings("profiled"), total)
        profiler.runcall(watched.run)
        profiler.dump_stats(profile)
        return
    sent = [record for cycle in first.cycles for record in cycle.sent]
    rates: dict[str, list[float]] = {"service": [], "bare": [], "bare, settled": []}
    for number in range(runs):
        watched = Watched(settings(f"ours-{number}"), total)
        watched.run()
        rates["service"].append(total / (watched.ended - watched.began))
        rates["bare, settled"].append(total / bare_loop(settings(f"spared-{number}"), total, first.cycles))
        with interpreter_as_usual():
            rates["bare"].append(total / bare_loop(settings(f"bare-{number}"), total, first.cycles))
    table = Table(
        f"A backlog of {total:,} readings of {SENSORS} sensors in {PARTITIONS} partitions, one worker, model auto, "
        f"default window: {len(first.cycles)} transactions with {len(sent):,} records of "
        f"{sum(len(value) for _, _, value, _ in sent) / 1e6:.1f} MB. Readings a second, median of {runs} alternating "
        "runs (lowest and highest). The bare loop runs with the interpreter as it comes, and settled as the service "
        "has it, which looks for garbage seldom.",
        loop=-18, readings_s=12, range=20, service_over_it=16,
    )  # fmt: skip
    medians = {name: statistics.median(each) for name, each in rates.items()}
    for name, each in rates.items():
        share = f"{medians['service'] / medians[name]:.0%}"
        table.row(name, f"{medians[name]:,.0f}", f"{min(each):,.0f} - {max(each):,.0f}", share)
    print(flush=True)


# --- a worker as a process ---------------------------------------------------------------------------------------


def environment(settings: Settings, port: int) -> dict[str, str]:
    kafka, names = settings.kafka, settings.topics.names
    own = {
        "KAFKA__BOOTSTRAP": ",".join(kafka.bootstrap), "KAFKA__GROUP": kafka.group, "KAFKA__MEMBER": kafka.member,
        "KAFKA__TOPICS": ",".join(kafka.topics), "KAFKA__START_FROM": kafka.start_from,
        "MAPPING__PARTITIONED_BY_SENSOR": "true", "LIMITS__MEMORY_MB": str(settings.limits.memory_mb),
        "WORKER__STORE": str(settings.worker.store), "HTTP__PORT": str(port),
        "WORKER__SNAPSHOT_WITHIN_S": str(settings.worker.snapshot_within_s),
        **{f"TOPICS__{kind.upper()}": name for kind, name in names.items()},
    }  # fmt: skip
    return {**os.environ, "PYTHONPATH": str(HERE.parent), **{f"ISHSMM_{key}": value for key, value in own.items()}}


@contextlib.contextmanager
def a_worker(settings: Settings) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], dict[str, float]]]]:
    """The process, and a look at its metrics (none while it does not answer)."""
    (port,) = local_broker.free_ports(1)
    command = [sys.executable, "-m", "service.cli", "serve", "--log-level", "WARNING"]
    process = subprocess.Popen(command, env=environment(settings, port))

    def metrics() -> dict[str, float]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return {}
        return {name: float(number) for name, number in (line.split() for line in lines if line[0] != "#")}

    try:
        yield process, metrics
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_for(done: Callable[[], bool], seconds: float = 180.0) -> float:
    began = time.monotonic()
    while not done():
        if time.monotonic() - began > seconds:
            raise RuntimeError("it does not happen")
        time.sleep(0.25)  # a look costs the worker some of its time
    return time.monotonic() - began


CHANGELOG_BYTES, READINGS = "ishsmm_changelog_bytes_total", 'ishsmm_readings_total{result="accepted"}'


# --- time to an event, changelog traffic -------------------------------------------------------------------------

SNAPSHOT_WITHIN = 60.0 * SENSORS / RATE  # as many readings of a sensor between snapshots as at 1 Hz and 60 s


def produce_live(bootstrap: str, topic: str, seconds: float) -> None:
    """``RATE`` readings a second in steps of 10 ms; runs as a process of its own."""
    producer = Connection(bootstrap.split(",")).build(KafkaProducer, linger_ms=0, metrics_enabled=False)
    count = int(seconds * RATE / SENSORS) + 1
    columns = [values(sensor, count, every=240, size=15.0) for sensor in range(SENSORS)]
    began, step, sent = time.monotonic(), RATE // 100, 0
    while sent < seconds * RATE:
        for _ in range(step):
            sensor, i = sent % SENSORS, sent // SENSORS
            producer.send(
                topic, reading(sensor, time.time(), columns[sensor][i]), b"sensor-%d" % sensor,
                partition=sensor % PARTITIONS,
            )  # fmt: skip
            sent += 1
        time.sleep(max(0.0, began + sent / RATE - time.monotonic()))
    producer.flush()
    producer.close()


def latency(broker: local_broker.Broker, folder: Path, seconds: float, within: float) -> None:
    """Time to an event, or with ``within`` below a minute the changelog's traffic."""
    connection, topic = Connection(broker.bootstrap), f"live-{within:g}"
    kafka_topics.create(
        connection, [kafka_topics.TopicSpec(topic, PARTITIONS, {"message.timestamp.type": "LogAppendTime"})]
    )
    settings = make_settings(broker.bootstrap, folder, f"group-{topic}", topic)
    worker = msgspec.structs.replace(settings.worker, snapshot_within_s=within)
    settings = msgspec.structs.replace(settings, worker=worker)
    came: list[tuple[float, bytes]] = []
    looks: list[dict[str, float]] = []
    with a_worker(settings) as (_, metrics):
        wait_for(lambda: metrics().get("ishsmm_partitions", 0) == PARTITIONS)
        command = [sys.executable, __file__, "--produce", ",".join(broker.bootstrap), topic, str(seconds)]
        producing: list[subprocess.Popen[bytes]] = []
        ends = [time.monotonic() + 10**6]

        def is_over() -> bool:
            if producing[0].poll() is not None and ends[0] > time.monotonic() + 10:
                ends[0] = time.monotonic() + 2.0
            if not looks and time.monotonic() > began + seconds / 2:
                looks.append(metrics())
            return time.monotonic() > ends[0]

        began = time.monotonic()
        for value in follow(
            connection,
            settings.topics.events,
            is_over=is_over,
            ready=lambda: producing.append(subprocess.Popen(command)),
        ):
            came.append((1000.0 * time.time(), value))
        looks.append(metrics())
    if within < 60.0:
        sent, taken = (looks[-1][name] - looks[0][name] for name in (CHANGELOG_BYTES, READINGS))
        print(
            f"Changelog, values only, {within:g} s between snapshots at {RATE / SENSORS:g} Hz (as many readings as "
            f"with 60 s at 1 Hz): {sent / taken:.0f} bytes a reading over {taken:,.0f} readings"
        )
        return
    appended: dict[str, list[int]] = {}
    with ChangelogReader(connection) as reader:
        for number in range(PARTITIONS):
            for record in reader.records(topic, number, 0, reader.high_watermark(topic, number)):
                appended.setdefault(record.key.decode(), []).append(record.timestamp)
    delays = []
    for arrived, value in came:
        event = messages.decode(value)
        if isinstance(event, messages.ChangeEvent) and event.status == "provisional":
            delays.append(arrived - appended[event.sensor][event.at.index])
    span = sum(map(len, appended.values())) / (
        (max(map(max, appended.values())) - min(map(min, appended.values()))) / 1e3
    )
    print(
        f"From the append of the reading that raises an alarm to a read_committed consumer that has its event: p50 "
        f"{np.quantile(delays, 0.5):.0f} ms, p99 {np.quantile(delays, 0.99):.0f} ms ({len(delays)} alarms, {span:,.0f} "
        f"readings/s of {SENSORS} sensors)\n"
    )


def changelog(count: int = 600) -> None:
    """From the size of states alone."""
    key_and_framing = len("sensor-123") + RECORD_OVERHEAD
    sizes = []
    for sensor in range(20):
        track = fed_track(Rule(), sensor, count)
        sizes.append(len(changelog_value(Saved(0, 0, 0, track.dump()))) + key_and_framing)
    each = float(np.mean(sizes))
    print(
        f"A snapshot of an ILR sensor after {count} readings: {each:,.0f} bytes with key and framing. Every 57 s at "
        f"1 Hz: {each / 57.0:.0f} bytes a reading\n"
    )


def fed_track(rule: Rule, sensor: int, count: int) -> Track:
    track = Track(f"sensor-{sensor}", prepare_rule(rule))
    times = range(START * 1_000_000, (START + count) * 1_000_000, 1_000_000)
    accepted = []
    for at, value in zip(times, values(sensor, count).tolist(), strict=True):
        accepted.append((at, (value,), track.judge(Reading(track.sensor, at, (value,)), -1)))
    infer(track, accepted)
    return track


# --- restore -----------------------------------------------------------------------------------------------------


def restore(broker: local_broker.Broker, folder: Path, sensors: int, tail: int) -> None:
    connection, topic = Connection(broker.bootstrap), "restored"
    kafka_topics.create(connection, [kafka_topics.TopicSpec(topic, PARTITIONS, FOR_EVER)])
    settings = make_settings(broker.bootstrap, folder, "restore", topic, kafka={"member": "one"})
    states = [[fed_track(Rule(), sensor, count).dump() for sensor in range(10)] for count in (180, 240, 300)]
    newest = (START + 300) * 1_000_000
    producer = connection.build(KafkaProducer, batch_size=512 * 1024, linger_ms=5, metrics_enabled=False)
    for versions in states:
        for sensor in range(sensors):
            value = changelog_value(Saved(0, newest, 0, versions[sensor % 10]))
            key = b"sensor-%d" % sensor
            producer.send(settings.topics.changelog, value, key, partition=sensor % PARTITIONS)
            if sensor % 500 == 0:
                producer.flush()  # the client would queue it all
    columns = [values(sensor, 301 + tail // sensors + 1) for sensor in range(10)]
    for i in range(tail):
        sensor, later = i % sensors, 301 + i // sensors
        moment = START + later
        producer.send(
            topic, reading(sensor, moment, columns[sensor % 10][later]), b"sensor-%d" % sensor,
            partition=sensor % PARTITIONS, timestamp_ms=1000 * moment,
        )  # fmt: skip
    producer.flush()
    producer.close()
    commit = msgspec.json.encode(Commit(0, newest, 0)).decode()
    consumer = connection.build(KafkaConsumer, group_id=settings.kafka.group, enable_auto_commit=False)
    with ChangelogReader(connection) as reader:
        ends = {number: reader.high_watermark(topic, number) for number in range(PARTITIONS)}
    places = {TopicPartition(topic, number): OffsetAndMetadata(end, commit) for number, end in ends.items()}
    consumer.assign(list(places))
    consumer.commit(places)
    consumer.close()

    def restored() -> bool:
        return metrics().get("ishsmm_restores_total", 0) == PARTITIONS

    with a_worker(settings) as (process, metrics):
        wait_for(restored)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    began = time.monotonic()
    with a_worker(settings) as (process, metrics):
        up = wait_for(lambda: bool(metrics()))
        wait_for(restored)
        whole = time.monotonic() - began
        wait_for(lambda: metrics()["ishsmm_sensors"] == sensors)
        process.kill()
    size = 3 * sensors * np.mean([len(state) for versions in states for state in versions]) / 1e6
    print(
        f"After SIGKILL, {sensors:,.0f} ILR sensors with three versions each in the changelog ({size:,.0f} MB) and "
        f"{tail:,} readings to replay are restored {whole:.1f} s after the process starts, of which it imports and "
        f"compiles for {up:.1f} s: restore {whole - up:.1f} s\n"
    )


# --- models in which states return -------------------------------------------------------------------------------


def ied(detectors: int, count: int) -> None:
    rule = msgspec.convert({"prior": "auto", "model": {"kind": "ied", "duration": IED_DURATION}}, Rule)
    fed_track(rule, 0, 100)
    before, began = resident(), time.process_time()
    tracks = [fed_track(rule, sensor, count) for sensor in range(detectors)]
    took, grown = time.process_time() - began, resident() - before
    sizes = [len(track.dump()) for track in tracks[:10]]
    print(
        f"IED models, 100 chains: {detectors * count / took:,.0f} readings/s on one core, "
        f"{grown / detectors / 1e6:.2f} MB a detector in memory, {np.mean(sizes) / 1e3:.0f} KB a snapshot "
        f"({detectors} detectors after {count} readings)\n"
    )


IED_DURATION = {"family": "poisson", "shape": 2.0, "scale": 100.0}


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


PARTS = ("throughput", "latency", "changelog", "restore", "ied")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the readings, fewer runs, fewer sensors")
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}, separated by commas")
    parser.add_argument("--profile", metavar="FILE", help="write a cProfile of the service on the backlog, and end")
    parser.add_argument("--produce", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.produce:
        return produce_live(options.produce[0], options.produce[1], float(options.produce[2]))
    quick, only = options.quick, options.only.split(",")
    with tempfile.TemporaryDirectory() as temporary, local_broker.single(Path(temporary) / "broker") as broker:
        folder = Path(temporary)
        if "throughput" in only or options.profile:
            throughput(broker, folder, 100 if quick else 400, 3 if quick else 5, options.profile)
        if options.profile:
            return
        if "latency" in only:
            latency(broker, folder, 30.0 if quick else 60.0, within=60.0)
        if "changelog" in only:
            latency(broker, folder, 30.0 if quick else 60.0, within=SNAPSHOT_WITHIN)
            changelog()
        if "restore" in only:
            restore(broker, folder, 2_000 if quick else 10_000, 10_000 if quick else 60_000)
        if "ied" in only:
            ied(20 if quick else 100, 200 if quick else 400)


if __name__ == "__main__":
    main()
