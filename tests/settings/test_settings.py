"""The configuration: defaults, the file, the environment, and one clear line for everything that is wrong."""

import json
import random
import re
import typing
from pathlib import Path

import msgspec
import numpy as np
import pytest

from service import settings
from service.settings.load import _convert, variables
from service.settings.models import ModelTable
from service.settings.rules import IMPLIED, Rule
from service.settings.settings import Settings

EXAMPLE = Path(settings.__file__).parents[2] / "deploy" / "service.example.toml"
IED = {"kind": "ied", "emission": {"family": "normal", "mean": 20.0}, "duration": {"family": "poisson"}}


def load(text="", environ=None):
    path = None
    if text:
        path = load.folder / "service.toml"
        path.write_text(text, encoding="utf-8")
    return settings.load(path, environ or {})


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    load.folder = tmp_path


def message_of(text="", environ=None):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        load(text, environ).check()
    message = str(caught.value)
    assert "\n" not in message
    return message


def rule(**fields):
    return load(environ={"ISHSMM_RULES": json.dumps([fields])}).rules[0]


# Defaults and the example


def test_nothing_given_is_all_defaults():
    assert load() == Settings()
    assert load().kafka.bootstrap == ("localhost:9092",)


def test_the_example_loads_and_is_the_defaults():
    example = settings.load(EXAMPLE, {})
    example.check()
    assert msgspec.structs.replace(example, rules=()) == Settings()
    assert example.rules == (Rule(),)


def structs_in(kind):
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from structs_in(field.type)
    for member in typing.get_args(kind):
        yield from structs_in(member)


def test_the_example_mentions_every_option():
    text = EXAMPLE.read_text(encoding="utf-8")
    found = list(structs_in(Settings))
    assert ModelTable in found
    sections = ("source", "file", "simulate", "kafka", "topics", "mapping", "limits", "worker", "http", "security")
    sections += ("view", "metrics", "rules", "sinks", "detector", "alarms", "incidents", "window", "labels")
    sections += ("state_names", "model")
    for struct in found:
        for field in msgspec.structs.fields(struct):
            name = field.encode_name
            if name in sections or (struct, name) == (Rule, "time"):
                assert f".{name}]" in text or f"[{name}]" in text
            else:
                assert f"{name} = " in text, f"{struct.__name__}.{name}"


def test_what_the_example_comments_out_is_right_too():
    """Lines such as `# lag = 3` are options that a reader will uncomment."""
    plain = EXAMPLE.read_text(encoding="utf-8")
    for line in ("hazard = ", "min_dwell = ", "outliers = ", "threshold = ", "retract = ", "interval_s = ", "prior = "):
        assert f"# {line}" in plain
        plain = plain.replace(f"# {line}", line)
    load(plain).check()


def test_the_model_that_the_example_comments_out_is_right_too():
    rules, model = EXAMPLE.read_text(encoding="utf-8").split('# A model in full, in place of model = "auto":\n')
    model = re.sub("^# ?", "", model, flags=re.MULTILINE).replace("states = 3", "")
    found = load(re.sub('^model = "auto"', "", rules, flags=re.MULTILINE) + model)
    found.check()
    assert found.rules[0].model.kind == "ied"


# The environment


def test_every_option_outside_of_rules_has_a_variable():
    names = variables()
    assert names["ISHSMM_KAFKA__BOOTSTRAP"] == ("kafka", "bootstrap")
    assert names["ISHSMM_KAFKA__SECURITY__PASSWORD_FILE"] == ("kafka", "security", "password_file")
    flat = {".".join(place) for place in names.values()}
    assert names["ISHSMM_SOURCE__FILE__PATH"] == ("source", "file", "path")
    for section in ("source", "kafka", "topics", "mapping", "limits", "worker", "http", "metrics", "incidents"):
        for field in msgspec.structs.fields(type(getattr(Settings(), section))):
            name = f"{section}.{field.encode_name}"
            assert name in flat or name in ("kafka.security", "source.file", "source.simulate")


def test_every_default_can_be_said_by_its_variable():
    environ = {}
    for name, place in variables().items():
        value = Settings()
        for part in place:
            value = getattr(value, part)
        if isinstance(value, tuple):
            environ[name] = ",".join(value)
        elif value is not None:
            environ[name] = str(value).lower() if isinstance(value, bool) else str(value)
    assert load(environ=environ) == Settings()


def test_the_environment_comes_before_the_file():
    text = '[kafka]\nbootstrap = ["a:1"]\ngroup = "g"\n[http]\nport = 1'
    found = load(text, {"ISHSMM_KAFKA__BOOTSTRAP": "b:2, c:3", "ISHSMM_HTTP__PORT": "8080", "HOME": "/"})
    assert found.kafka.bootstrap == ("b:2", "c:3")
    assert found.kafka.group == "g"
    assert found.http.port == 8080


def test_a_password_of_digits_stays_a_text():
    environ = {
        "ISHSMM_KAFKA__SECURITY__PROTOCOL": "sasl_ssl",
        "ISHSMM_KAFKA__SECURITY__USERNAME": "true",
        "ISHSMM_KAFKA__SECURITY__PASSWORD": "0123",
    }
    security = load(environ=environ).kafka.security
    assert (security.username, security.read_password()) == ("true", "0123")


def test_variables_that_kubernetes_sets_are_left_alone():
    load(environ={"ISHSMM_WORKER_PORT": "tcp://10.0.0.1:80", "ISHSMM_STREAM_SERVICE_HOST": "10.0.0.1",
                  "ISHSMM_HTTP_PORT": "tcp://10.0.0.1:80"})  # fmt: skip


def test_rules_from_the_environment_as_json_and_as_toml():
    as_json = load(environ={"ISHSMM_RULES": '[{"match": "a*", "labels": {"critical": true}}]'})
    as_toml = load(environ={"ISHSMM_RULES": '[[rules]]\nmatch = "a*"\nlabels.critical = true'})
    assert as_json == as_toml
    assert as_json.rules[0].labels == {"critical": True}


# What is wrong is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[kafka]\nbotstrap = []", "kafka.botstrap is unknown; did you mean 'bootstrap'?"),
        ("[kafak]\n", "kafak is unknown; did you mean 'kafka'?"),
        ("kafka = 3", "kafka takes a table, got 3"),
        ("[kafka]\nbootstrap = 3", "kafka.bootstrap takes a list, each a text, got 3"),
        ('[kafka]\nbootstrap = ["a"]', "kafka.bootstrap takes host:port, got 'a'"),
        ('[kafka]\nbootstrap = ["a:99999"]', "kafka.bootstrap takes host:port, got 'a:99999'"),
        ("[kafka]\nbootstrap = []", "kafka.bootstrap takes at least one"),
        ('[kafka]\nstart_from = "yesterday"', "kafka.start_from takes 'latest', 'earliest' or an RFC 3339 time"),
        ("[kafka]\nstart_from = 2026-01-31", "kafka.start_from takes"),
        ('[kafka]\ntopics = ["a b"]', "kafka.topics takes up to 249 letters"),
        ('[kafka]\ntopics_pattern = "["', "kafka.topics_pattern takes a regular expression, got '['"),
        *(
            (f'[kafka]\ntopics_pattern = "{pattern}"', f"kafka.topics_pattern {pattern!r} could take minutes")
            for pattern in ("(a+)+b", "(a|aa)*b", "(?:a*)*", ".*.*.*.*x", "(a)(?:b{1,9})+", "(a+){2}b")
        ),
        ('[kafka]\ntopics_pattern = "a"\ntopics = ["b"]', "kafka.topics and topics_pattern are given"),
        (
            '[kafka]\ntopics_pattern = ".*"',
            "kafka.topics_pattern reads 'ishsmm.events', which the service",
        ),
        ('[kafka]\ntopics = ["ishsmm.states"]', "kafka.topics reads 'ishsmm.states'"),
        ('[topics]\nevents = "x"\nstates = "x"', "topics.every topic takes a name of its own"),
        ('[kafka.security]\nprotocol = "sasl_ssl"', "kafka.security.protocol = 'sasl_ssl' needs username"),
        ('[kafka.security]\nusername = "u"\npassword = "p"', "need protocol = 'sasl_ssl'"),
        ('[kafka.security]\nprotocol = "ssl"\nkey_file = "k"', "certificate_file and key_file belong together"),
        (
            '[kafka.security]\nprotocol = "ssl"\nca_file = "/no/ca"',
            "kafka.security.ca_file /no/ca: there is no",
        ),
        ("[source]\nkinds = ['kafak']", "source.kinds takes a list, each 'file' | 'http' | 'kafka'"),
        ("[source]\nkinds = []", "source.kinds takes at least one of kafka"),
        ("[source]\nkinds = ['http', 'http']", "source.kinds takes each once"),
        ("[source]\nkinds = ['http', 'kafka']", "source.kinds takes kafka alone"),
        ("[source]\nkinds = ['file']", "source.kinds names file, which needs source.file.path"),
        ("[source]\nuntil_end = true\nkinds = ['http']", "source.until_end takes sources with an end"),
        ("[source.file]\ndelimiter = ', '", "source.file.delimiter takes one character"),
        ("[http]\nhost = '0.0.0.0'", "http.host = '0.0.0.0' can be reached from other machines: that takes a token"),
        ("[http]\ntoken = 'a'\ntoken_file = 'b'", "http.token and token_file are given"),
        ("[http]\ntoken_file = '/no/token'", "http.token_file /no/token: No such file"),
        ("[metrics]\nport = 1\nhost = '0.0.0.0'", "metrics.host = '0.0.0.0' can be reached from other machines: that"),
        ("[metrics]\nport = 1\ntoken = 'a'\ntoken_file = 'b'", "metrics.token and token_file are given"),
        ("[metrics]\nport = 1\ntoken_file = '/no/token'", "metrics.token_file /no/token: No such file"),
        ("[metrics]\ntoken = 'a'", "metrics.token and token_file are for a port of its own: give port, or http.token"),
        ("[metrics]\nport = 9108", "metrics.port takes a port of its own, got the API's 9108 (http.port)"),
        ("[metrics]\nsensors = ['']", "metrics.sensors takes names and patterns such as 'boiler-*', got an empty one"),
        ("[http]\nport = 70000", "http.port takes a whole number from 0 up to 65535, got 70000"),
        ("[incidents]\nspan_s = 3601", "incidents.span_s takes a number from 1 up to 3600, got 3601"),
        ("[incidents]\nfalse_per_week = 0", "incidents.false_per_week takes a number above 0 up to 1e+06, got 0"),
        ("[incidents]\nmin_sensors = 1", "incidents.min_sensors takes a whole number from 2 up to 10000, got 1"),
        ("[incidents]\ngroup_by = ''", "incidents.group_by takes a text that is not empty, got ''"),
        ("[incidents]\ngroup = 'site'", "incidents.group is unknown; did you mean 'group_by'?"),
        ("[http]\nport = true", "http.port takes a whole number from 0 up to 65535, got True"),
        ("[worker]\ncycle_s = nan", "worker.cycle_s takes a number above 0"),
        ("[worker]\nwatchdog_s = 5", "worker.watchdog_s takes more than transaction_timeout_s = 15, got 5"),
        ("[mapping]\nvalues = ['x']", "mapping.values has no meaning with format = 'ishsmm'"),
        ("[mapping]\nformat = 'csv'\nsensor = 'x'", "mapping.a column takes a number from 0, got 'x'"),
        ("[mapping]\nformat = 'json'\nvalues = ['a.x', 'b.x']", "mapping.values takes fields of different names"),
        ("[mapping]\nformat = 'json'\nvalues = ['a..x']", "mapping.a place takes names joined by dots, got 'a..x'"),
        ("rules = 3", "rules takes a list, each a table, got 3"),
        ("[[rules]]\nmatch = ''", "rules[0].match takes a text that is not empty, got ''"),
        ("[[rules]]\n[[rules]]\nmatch = 'a'", "rules[0].match = '*' takes every sensor"),
        ("[[rules]]\nmodel = 'aut'", "rules[0].model takes 'auto' | 'recurring' or a table, got 'aut'"),
        ("[[rules]]\n[rules.model]\nkind = 'ilr'\nemission.family = 'norml'", "did you mean 'normal'?"),
        ("[[rules]]\n[rules.model]\nkind = 'ilr'\nstates = 3", "rules[0].model.states is for bayesian_hmm"),
        ("[[rules]]\n[rules.model]\nkind = 'bayesian_hmm'", "rules[0].model.states takes the number of states"),
        ("[[rules]]\nalarms.treshold = 1", "rules[0].alarms.treshold is unknown; did you mean 'threshold'?"),
        ("[[rules]]\nalarms.threshold = 2", "rules[0] (match = '*'): alarms.threshold must lie between 0 and 1, got 2"),
        ("[[rules]]\nalarms.rate.changes = 1", "rules[0].alarms.rate.false_alarms is missing"),
        ("[[rules]]\ndetector.lag = 2", "rules[0].detector.lag takes a whole number from 8 up to 10000, got 2"),
        ("[[rules]]\ndetector.seed = -2", "rules[0] (match = '*'): detector.seed must be at least 0, got -2"),
        (
            "[[rules]]\n[rules.model]\nkind = 'ilr'\nemission = {family = 'normal', mean = 1" + "0" * 400 + "}",
            "rules[0].model.emission.mean takes whole numbers of up to 19 digits",
        ),
        (
            "[[rules]]\ntransform = 'log'\n[rules.model]\nkind = 'ilr'\nemission = {family = 'categorical'}",
            "rules[0].transform takes 'none' where the emission counts, got 'log'",
        ),
        ("[[rules]]\ntime.gap = 'insert'", "rules[0].time.gap = 'insert' needs interval_s"),
        ("[[rules]]\nlabels.critical = 'yes'", "rules[0].labels.critical takes true or false, got 'yes'"),
        ("[[rules]]\nstate_names.0 = 'idle'", "rules[0].state_names takes a model in which states return"),
        ("x = [", "no TOML"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_that_names_the_key(text, said):
    assert said in message_of(text)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ISHSMM_HTTP__PORT", "x", "http.port (ISHSMM_HTTP__PORT) takes a whole number from 0 up to 65535, got 'x'"),
        ("ISHSMM_HTTP__PROT", "1", "ISHSMM_HTTP__PROT is unknown; did you mean 'ISHSMM_HTTP__PORT'?"),
        ("ISHSMM_HTTP_PORT", "1", "ISHSMM_HTTP_PORT is unknown; did you mean 'ISHSMM_HTTP__PORT'?"),
        ("ISHSMM_RULES", "[", "ISHSMM_RULES takes a JSON list or TOML"),
        ("ISHSMM_RULES", "[[rules]", "ISHSMM_RULES"),
        ("ISHSMM_RULES", "{}", "rules takes a list"),
        ("ISHSMM_RULES", "[3]", "rules[0] takes a table, got 3"),
    ],
)
def test_a_mistake_in_the_environment_is_one_line_that_names_the_variable(name, value, said):
    assert said in message_of(environ={name: value})


def test_missing_and_unreadable_files_are_said(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere\.toml: No such file"):
        settings.load(tmp_path / "nowhere.toml", {})
    (tmp_path / "latin.toml").write_bytes(b'x = "\xe9"')
    with pytest.raises(ValueError, match="not UTF-8"):
        settings.load(tmp_path / "latin.toml", {})


def test_any_value_anywhere_is_taken_or_refused_with_its_key():
    """Seeded: 2,000 tables with values of wrong types in random places. Nothing but a ValueError with a key leaves."""
    rng = random.Random(5)
    hostile = [None, True, -1, 0, 10**30, 1e308, float("nan"), "", "x", "\x00", [], [[]], [1, "a"], {}, {"x": 1}]
    messages = []
    for _ in range(2000):
        section = rng.choice(msgspec.structs.fields(Settings))
        struct = next(iter(structs_in(section.type)))
        field = rng.choice(msgspec.structs.fields(struct))
        table = {field.encode_name: rng.choice([*hostile, "9" * 500])}
        table = {section.encode_name: [table] if section.name == "rules" else table}
        try:
            _convert(Settings, table, "")
        except ValueError as error:
            messages.append((section.encode_name, str(error)))
    assert len(messages) > 1000
    for section_name, message in messages:
        assert message.startswith(section_name)
        assert "\n" not in message
        assert len(message) < 700


# Secrets


def test_a_password_from_a_file_and_never_in_a_repr(tmp_path):
    (tmp_path / "secret").write_text("hunter2\n")
    environ = {
        "ISHSMM_KAFKA__SECURITY__PROTOCOL": "sasl_plaintext",
        "ISHSMM_KAFKA__SECURITY__USERNAME": "u",
        "ISHSMM_KAFKA__SECURITY__PASSWORD_FILE": str(tmp_path / "secret"),
    }
    assert load(environ=environ).kafka.security.read_password() == "hunter2"
    del environ["ISHSMM_KAFKA__SECURITY__PASSWORD_FILE"]
    inline = load(environ={**environ, "ISHSMM_KAFKA__SECURITY__PASSWORD": "hunter2"})
    assert "hunter2" not in repr(inline)
    assert "hunter2" not in message_of("[kafka.security]\npassword = ['hunter2']")
    assert "hunter2" not in message_of("[http]\ntoken = ['hunter2']")
    assert "hunter2" not in repr(load("[http]\ntoken = 'hunter2'"))
    assert "hunter2" not in repr(load("[metrics]\nport = 1\ntoken = 'hunter2'"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.3.4.5"])
def test_this_machine_alone_needs_no_token(host):
    assert load(f"[http]\nhost = '{host}'").http.read_token() is None


def test_other_machines_need_one(tmp_path):
    (tmp_path / "token").write_text("abc\n")
    assert load(f"[http]\nhost = '0.0.0.0'\ntoken_file = '{tmp_path / 'token'}'").http.read_token() == "abc"
    assert load("[http]\nhost = '0.0.0.0'\nport = 0").http.read_token() is None


def test_an_empty_password_file_is_said(tmp_path):
    (tmp_path / "secret").write_text("\n")
    text = f'[kafka.security]\nprotocol = "sasl_ssl"\nusername = "u"\npassword_file = "{tmp_path / "secret"}"'
    assert "the file is empty" in message_of(text)


def test_start_from_a_time():
    assert load("[kafka]\nstart_from = 1970-01-01T00:00:01Z").kafka.start_time_ms == 1000
    assert load('[kafka]\nstart_from = "1970-01-01T01:00:01+01:00"').kafka.start_time_ms == 1000
    assert load().kafka.start_time_ms is None


# Rules


def test_the_first_rule_that_matches_wins_and_defaults_are_implied():
    found = load("[[rules]]\nmatch = 'a-?'\n[[rules]]\nmatch = 'a*'\nlabels.site = 'x'")
    assert found.rule_for("a-1") is found.rules_in_force[0]
    assert found.rule_for("a/b/c").labels == {"site": "x"}
    assert found.rule_for("A-1") == IMPLIED.under(found.alarms)
    assert found.rule_for("A-1") is found.rule_for("A-2"), "what is computed of a rule is kept by its identity"


def test_a_rule_builds_the_detector_that_it_describes():
    detector = rule(
        model=IED, prior="model", detector={"lag": 32, "chains": 10, "seed": 4}, alarms={"threshold": 0.9}
    ).detector()
    assert (detector.model.name, detector.model.emission.mean) == ("ied", 20.0)
    assert (detector.lag, detector.chains, detector.seed, detector.prior) == (32, 10, 4, "model")
    assert detector.alarm_policy.threshold == 0.9
    auto = rule(detector={"hazard": [1, 100], "outliers": 0.02}).detector()
    assert auto.model == "auto"
    assert tuple(auto.hazard) == (1.0, 100.0)


@pytest.mark.parametrize(
    "kind", ["ilr", "ied", "hdp_hmm", "sticky_hdp_hmm", "hdp_hsmm", "bayesian_hmm", "bayesian_hsmm"]
)
def test_every_kind_of_model_follows_a_stream(kind):
    model = {"kind": kind, "emission": {"family": "normal"}}
    if kind.startswith("bayesian"):
        model["states"] = 2
    detector = rule(model=model, detector={"chains": 5, "lag": 8}).detector()
    detector.update_many(np.zeros(3))
    assert detector.time == 3


def test_alarm_policies_from_rates_and_costs_and_a_low_threshold():
    assert rule(alarms={"rate": {"false_alarms": 0.1, "changes": 4.9}}).policy().threshold == pytest.approx(0.98)
    assert rule(alarms={"costs": {"false_alarm": 100, "delay": 1}}).policy().threshold == pytest.approx(0.98)
    assert rule(alarms={"threshold": 0.3}).policy().retract == 0.3
    assert rule().policy() == IMPLIED.detector()._policy


def test_the_fingerprint_changes_with_inference_and_with_nothing_else():
    base = rule(model=IED)
    same = [
        {"model": IED, "alarms": {"threshold": 0.5}},
        {"model": IED, "labels": {"site": "x"}, "window": {"readings": 3}, "match": "z"},
        {"model": IED, "time": {"late": "reject"}, "detector": {"keep": 7, "seed": 0}},
        {"model": {**IED, "emission": {"family": "normal", "mean": 20, "shape": 1}}},  # 1.0 is the default
        {"model": {**IED, "hyperparameters": {"alpha1": {"gamma": [1, 1]}}}},
    ]
    for fields in same:
        assert rule(**fields).inference_fingerprint() == base.inference_fingerprint(), fields
    other = [
        {},
        {"model": {**IED, "kind": "ilr"}},
        {"model": {**IED, "emission": {"family": "normal", "mean": 21.0}}},
        {"model": {**IED, "hyperparameters": {"alpha1": 1}}},
        {"model": IED, "prior": "auto"},
        {"model": IED, "transform": "log"},
        {"model": IED, "detector": {"seed": 1}},
        {"model": IED, "detector": {"lag": 65}},
    ]
    prints = {rule(**fields).inference_fingerprint() for fields in other} | {base.inference_fingerprint()}
    assert len(prints) == len(other) + 1


def test_the_fingerprint_is_the_same_in_every_process():
    assert IMPLIED.inference_fingerprint() == "df8bcd2e8149aee8"


FAMILIES = {
    "normal": ["mean", "mean_weight", "shape", "scale"],
    "poisson": ["shape", "rate"],
    "categorical": ["concentration", "categories"],
    "multivariate_normal": ["mean", "mean_weight", "freedom", "scale"],
    "autoregressive": ["order", "trend", "lag_mean", "scale"],
}


def test_any_rule_is_built_or_refused_with_its_key():
    """Seeded: 1,500 rules with hostile numbers. Nothing but a ValueError of one line that names the rule leaves."""
    rng = random.Random(1)
    hostile = [None, True, -1, 0, 3, 10**400, 1e308, float("nan"), "", "x", [], [1, 2], ["a"], [[1, 0], [0, 1]], {}]
    hostile += [{"gamma": [1, 1]}, {"gamma": [1, "a"]}, {"beta": [0, 1]}, 0.5, 10**12]

    def some(names, share):
        return {name: rng.choice(hostile) for name in names if rng.random() < share}

    built, messages = 0, []
    for _ in range(1500):
        family = rng.choice(list(FAMILIES))
        model = {"kind": rng.choice(["ilr", "ied", "hdp_hmm", "bayesian_hmm"])}
        model["emission"] = {"family": family, **some(FAMILIES[family], 0.3)}
        model |= some(["states"], 0.3)
        model["hyperparameters"] = some(["alpha0", "alpha1", "c", "d", "alpha"], 0.05)
        fields = {"model": model, "detector": some(["seed", "hazard", "outliers", "keep"], 0.1)}
        fields["alarms"] = some(["threshold", "retract", "min_segment"], 0.1)
        try:
            found = _convert(Settings, {"rules": [fields]}, "")
            found.check()
            found.rules[0].inference_fingerprint()
            built += 1
        except ValueError as error:
            messages.append(str(error))
    assert built > 50
    assert len(messages) > 500
    assert all(message.startswith("rules[0]") and "\n" not in message for message in messages)


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ({"at_most": "twenty"}, "sinks[0].at_most takes a text such as '1 per week'"),
        ({"only": ["incident"], "labels": {"site": "a"}}, "sinks[0].only = 'incident' takes no labels"),
    ],
)
def test_a_limit_is_a_budget_and_incidents_have_no_labels(sink, said):
    assert said in message_of(environ={"ISHSMM_SINKS": json.dumps([{"kind": "stdout", "name": "x", **sink}])})
