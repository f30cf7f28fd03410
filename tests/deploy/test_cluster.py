"""Compose and Helm with their own programs, and what Helm makes against the schemas of Kubernetes and of the Prometheus
operator. Behind ``make deploy-test``: Helm is built by Go."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import local_helm
import pytest
import yaml
from deploy_tools import DEPLOY, run, unavailable

import ishsmm_stream
from service.settings import load

pytestmark = pytest.mark.deploy

KUBERNETES = "1.34"
COMPOSE = DEPLOY / "compose.yaml"
# everything that can be switched on, and how the least is said
SETTINGS = {
    "defaults": [],
    "all": [
        "serviceMonitor.enabled=true", "prometheusRule.enabled=true", "kafka.security.protocol=sasl_ssl",
        "kafka.security.username=app", "kafka.security.passwordSecret=kafka", "kafka.security.tlsSecret=kafka-tls",
        "kafka.security.clientCertificate=true", "networkPolicy.egress.enabled=true",
        "networkPolicy.egress.kafka[0].ipBlock.cidr=10.1.0.0/16",
        "networkPolicy.egress.dns[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=kube-system",
        "networkPolicy.ingress.worker[0].namespaceSelector.matchLabels.team=monitoring",
        "networkPolicy.ingress.view[0].podSelector.matchLabels.app=ingress",
        "networkPolicy.ingress.extra[0].ports[0].port=9111",
        "networkPolicy.egress.extra[0].ports[0].port=443",
    ],
    "workers alone": ["view.enabled=false", "createTopics=false", "serviceMonitor.enabled=true"],
    "no network policy": ["networkPolicy.enabled=false"],
}  # fmt: skip


def compose(path: Path) -> subprocess.CompletedProcess[str]:
    return run("docker-compose", "--file", path, "config")


def helm(*arguments: object) -> subprocess.CompletedProcess[str]:
    try:
        program = local_helm.helm()
    except local_helm.HelmUnavailable as reason:
        unavailable(str(reason))
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)


def template(chart: Path, settings: list[str]) -> list[dict[str, Any]]:
    """What the chart makes."""
    done = helm("template", "plant", chart, "--kube-version", KUBERNETES, *(f"--set={one}" for one in settings))
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one is not None]


def copy_of_chart(folder: Path, file: str, right: str, wrong: str) -> Path:
    """A copy of the chart with one mistake in it."""
    chart = shutil.copytree(local_helm.CHART, folder / "ishsmm-stream")
    text = (chart / file).read_text(encoding="utf-8")
    assert right in text
    (chart / file).write_text(text.replace(right, wrong, 1), encoding="utf-8")
    return chart


def complaints(made: list[dict[str, Any]], folder: Path) -> str:
    """What schemas find wrong in what the chart made, or nothing."""
    custom = [one for one in made if one["apiVersion"].startswith("monitoring.coreos.com/")]
    paths = []
    for number, one in enumerate(made):
        if one not in custom:
            paths.append(folder / f"{number}-{one['kind']}.yaml")
            paths[-1].write_text(yaml.safe_dump(one), encoding="utf-8")
    done = run("kubernetes-validate", "--strict", "--quiet", "-k", KUBERNETES, *paths)
    told = "" if done.returncode == 0 else done.stdout + done.stderr
    return told + "".join(map(custom_complaints, custom))


def custom_complaints(made: dict[str, Any]) -> str:
    try:
        folder = local_helm.operator_schemas()
    except local_helm.HelmUnavailable as reason:
        unavailable(str(reason))
    path = folder / f"monitoring.coreos.com_{made['kind'].lower()}s.yaml"
    definition = yaml.safe_load(path.read_text(encoding="utf-8"))
    (schema,) = [
        version["schema"]["openAPIV3Schema"]
        for version in definition["spec"]["versions"]
        if made["apiVersion"].endswith("/" + version["name"])
    ]
    errors = jsonschema.Draft202012Validator(strict(schema["properties"]["spec"])).iter_errors(made["spec"])
    return "".join(f"{made['kind']}: {error.json_path}: {error.message}\n" for error in errors)


def strict(schema: Any) -> Any:
    """The schema with unknown keys refused; the cluster would drop them without a word."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema and schema.get("type") == "object":
        made["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
    return made


# Compose


def test_compose():
    done = compose(COMPOSE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("      input: {condition", "      inputs: {condition", "undefined"),
        ("service_healthy", "service_helthy", "invalid type"),
        ("  read_only: true\n", "  readonly: true\n", "Unsupported config option"),
    ],
)
def test_compose_finds_a_mistake(tmp_path, right, wrong, told):
    text = COMPOSE.read_text(encoding="utf-8")
    assert right in text
    (tmp_path / "compose.yaml").write_text(text.replace(right, wrong, 1), encoding="utf-8")
    assert told in compose(tmp_path / "compose.yaml").stderr


def test_services_understand_the_environment_that_compose_gives_them():
    """By the service's own reader of settings: a misspelt variable would end every container."""
    for service in yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"].values():
        if service["image"] == "ishsmm-stream":
            assert load(DEPLOY / "demo.toml", service["environment"]).kafka.bootstrap == ("kafka:9092",)


def test_files_that_compose_mounts_are_there():
    for name, service in yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).exists(), f"{name}: {source}"


def test_all_services_in_compose_run_hardened():
    services = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    assert {"kafka", "input", "topics", "worker-1", "worker-2", "view", "plant"} < set(services)
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service.get("read_only", False) is (name != "grafana"), name


def test_the_broker_in_compose_can_write_where_it_has_to():
    """Its start script writes the configuration, and its libraries load native code that they unpack into /tmp."""
    services = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    for name in ("kafka", "input"):
        assert services[name]["tmpfs"] == ["/tmp:exec"], name
        assert services[name]["environment"]["LOG_DIR"].startswith("/tmp/"), name
    places = {volume.split(":")[1] for volume in services["kafka"]["volumes"]}
    assert places == {services["kafka"]["environment"]["KAFKA_LOG_DIRS"], "/opt/kafka/config"}


@pytest.mark.parametrize("variable", ["KAFKA_IMAGE", "PROMETHEUS_IMAGE", "GRAFANA_IMAGE"])
def test_images_in_compose_can_be_pinned_by_digest(monkeypatch, variable):
    def images() -> list[str]:
        done = compose(COMPOSE)
        assert done.returncode == 0, done.stderr
        return [one["image"] for one in yaml.safe_load(done.stdout)["services"].values()]

    tags = images()
    assert all(re.fullmatch(r"ishsmm-stream|docker\.io/[\w/-]+:v?[\d.]+", image) for image in tags), tags
    pinned = f"registry.example/pinned@sha256:{'0' * 64}"
    monkeypatch.setenv(variable, pinned)
    assert images().count(pinned) == (2 if variable == "KAFKA_IMAGE" else 1)


def test_the_base_image_in_compose_is_that_of_the_dockerfile_and_can_be_pinned(monkeypatch):
    def bases() -> set[str]:
        services = yaml.safe_load(compose(COMPOSE).stdout)["services"].values()
        return {one["build"]["args"]["PYTHON"] for one in services if "build" in one}

    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert bases() == set(re.findall(r"^ARG PYTHON=(\S+)$", dockerfile, re.MULTILINE))
    pinned = f"registry.example/python@sha256:{'0' * 64}"
    monkeypatch.setenv("PYTHON_IMAGE", pinned)
    assert bases() == {pinned}


# Helm


def test_helm_lint():
    done = helm("lint", "--strict", local_helm.CHART)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_what_helm_makes_fits_the_schemas(tmp_path, settings):
    assert complaints(template(local_helm.CHART, settings), tmp_path) == ""


@pytest.mark.parametrize(
    ("file", "right", "wrong", "told"),
    [
        ("templates/worker.yaml", "podManagementPolicy", "podManagmentPolicy", "podManagmentPolicy"),
        ("templates/worker.yaml", "maxUnavailable: 1", "maxUnavailable: [1]", "maxUnavailable"),
        ("templates/monitoring.yaml", "targetLabel: job", "targetLable: job", "targetLable"),
        ("templates/monitoring.yaml", "endpoints:", "endpoint:", "endpoints"),
        ("templates/networkpolicy.yaml", "policyTypes", "policyType", "policyType"),
        ("templates/networkpolicy.yaml", "    - ports:\n", "    - port:\n", "port"),
    ],
)
def test_schemas_find_a_mistake(tmp_path, file, right, wrong, told):
    chart = copy_of_chart(tmp_path, file, right, wrong)
    assert told in complaints(template(chart, SETTINGS["all"]), tmp_path)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["worker.replica=3"], "replica"),
        (["kafka.bootstrap={kafka}"], "bootstrap"),
        (["http.tokenSecret="], "tokenSecret"),
        (["kafka.security.protocol=sasl_ssl"], "username"),
        (["networkPolicy.ingress.view[0].namespace=monitoring"], "namespace"),
        (["networkPolicy.egress.dnsPorts={}"], "dnsPorts"),
        (["networkPolicy.egress.kafkaPorts={0}"], "kafkaPorts"),
    ],
)
def test_helm_refuses_values_that_cannot_work(settings, told):
    done = helm(
        "template", "plant", local_helm.CHART, "--kube-version", KUBERNETES, *(f"--set={one}" for one in settings)
    )  # fmt: skip
    assert done.returncode != 0
    assert told in done.stderr


def test_helm_lint_finds_a_mistake(tmp_path):
    chart = copy_of_chart(tmp_path, "templates/worker.yaml", ".Values.worker.replicas", ".Values.wrker.replicas")
    assert helm("lint", "--strict", chart).returncode != 0


def test_workers_are_static_members_under_the_names_of_their_pods():
    (worker,) = [one for one in template(local_helm.CHART, []) if one["kind"] == "StatefulSet"]
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one for one in container["env"]}
    assert variables["ISHSMM_KAFKA__MEMBER"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"


def test_every_pod_is_hardened_and_no_secret_stands_in_what_helm_makes():
    made = template(local_helm.CHART, SETTINGS["all"])
    pods = [one["spec"]["template"]["spec"] for one in made if one["kind"] in ("StatefulSet", "Deployment", "Job")]
    assert len(pods) == 3
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not [one for one in made if one["kind"] == "Secret"]


def network_policies(settings: list[str]) -> dict[str, dict[str, Any]]:
    made = template(local_helm.CHART, settings)
    return {one["metadata"]["name"]: one["spec"] for one in made if one["kind"] == "NetworkPolicy"}


def test_by_default_the_network_policies_open_the_ports_of_the_services_and_no_others():
    """To everybody: the chart cannot know where Prometheus and the Ingress controller are."""
    policies = network_policies([])
    assert set(policies) == {"plant-worker", "plant-view", "plant-topics"}
    assert all(policy["policyTypes"] == ["Ingress"] for policy in policies.values())
    assert policies["plant-topics"]["ingress"] == []
    for service in template(local_helm.CHART, []):
        if service["kind"] == "Service":
            (port,) = service["spec"]["ports"]
            policy = policies[service["metadata"]["name"]]
            assert policy["podSelector"]["matchLabels"] == service["spec"]["selector"]
            assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": port["port"]}]}]


def test_every_pod_has_a_network_policy_that_selects_it():
    made = template(local_helm.CHART, SETTINGS["all"])
    pods = [one["spec"]["template"]["metadata"] for one in made if one["kind"] in ("StatefulSet", "Deployment", "Job")]
    policies = [one["spec"] for one in made if one["kind"] == "NetworkPolicy"]
    for pod in pods:
        types = [
            policy["policyTypes"]
            for policy in policies
            if policy["podSelector"]["matchLabels"].items() <= pod["labels"].items()
        ]
        assert sorted(types) == [["Egress"], ["Ingress"]], pod["labels"]


def test_network_policies_let_through_the_peers_that_are_named():
    policies = network_policies(
        [
            *SETTINGS["all"], "kafka.bootstrap={kafka-0:9093,kafka-1:9093,kafka-2:9094}",
            "networkPolicy.egress.dnsPorts={5353}",
        ]
    )  # fmt: skip
    extra = {"ports": [{"port": 9111}]}
    assert policies["plant-worker"]["ingress"] == [
        {
            "ports": [{"protocol": "TCP", "port": 9108}],
            "from": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}],
        },
        extra,
    ]
    assert policies["plant-view"]["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": 9110}], "from": [{"podSelector": {"matchLabels": {"app": "ingress"}}}]},
        extra,
    ]
    assert policies["plant-egress"]["egress"] == [
        {
            "ports": [{"protocol": "UDP", "port": 5353}, {"protocol": "TCP", "port": 5353}],
            "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
        },
        {
            "ports": [{"protocol": "TCP", "port": 9093}, {"protocol": "TCP", "port": 9094}],
            "to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}],
        },
        {"ports": [{"port": 443}]},
    ]
    assert network_policies(["networkPolicy.egress.enabled=true", "networkPolicy.egress.kafkaPorts={9095,9096}"])[
        "plant-egress"
    ]["egress"][1] == {"ports": [{"protocol": "TCP", "port": 9095}, {"protocol": "TCP", "port": 9096}]}


def test_network_policies_can_be_switched_off():
    assert network_policies(["networkPolicy.enabled=false", "networkPolicy.egress.enabled=true"]) == {}


def test_all_alerts_are_in_the_rule():
    (rule,) = [one for one in template(local_helm.CHART, SETTINGS["all"]) if one["kind"] == "PrometheusRule"]
    written = [
        group
        for path in sorted((DEPLOY / "prometheus/rules").glob("*.yml"))
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    ]
    assert rule["spec"]["groups"] == written


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_workers_understand_the_environment_that_helm_gives_them(tmp_path, settings):
    """By the service's own reader of settings: a misspelt variable would end every pod."""
    for one in template(local_helm.CHART, settings):
        if one["kind"] not in ("StatefulSet", "Deployment", "Job"):
            continue
        (container,) = one["spec"]["template"]["spec"]["containers"]
        variables = {each["name"]: each.get("value", "pod-0") for each in container["env"]}
        config = tmp_path / "service.toml"
        config.write_text(yaml.safe_load((local_helm.CHART / "values.yaml").read_text())["config"], encoding="utf-8")
        assert load(config, variables).http.host == "0.0.0.0"


def test_the_chart_is_of_this_version():
    chart = yaml.safe_load((local_helm.CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == ishsmm_stream.__version__
