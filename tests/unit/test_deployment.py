"""The promises of Dockerfile, compose.yaml and the manifests, read from them: no engine runs here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

import telegram_assistant
from telegram_assistant.cli.main import app
from telegram_assistant.config import Settings
from telegram_assistant.metrics import REGISTRY

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
FIELDS = {name.upper() for name in Settings.model_fields}
COMMANDS = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]  # a group, as it has commands
ROLES: dict[str, int] = {
    "ingest": Settings.model_fields["ingest_health_port"].default,
    "worker": Settings.model_fields["worker_health_port"].default,
    "api": Settings.model_fields["api_port"].default,
    "bot": Settings.model_fields["bot_health_port"].default,
}
SECRETS = {name.upper() for name, field in Settings.model_fields.items() if "Secret" in str(field.annotation)}
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE_TEXT = (ROOT / "compose.yaml").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
MANIFESTS = [
    document
    for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
OURS = f"telegram-assistant:{telegram_assistant.__version__}"
PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+(\.\d+)?[\w.-]*")


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in MANIFESTS if one["kind"] == kind}


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in ("Deployment", "Job"):
        for name, one in of_kind(kind).items():
            yield name, one["spec"]["template"]["spec"]


def our_services() -> dict[str, dict[str, Any]]:
    return {name: one for name, one in SERVICES.items() if one["image"] == OURS}


# The image


def test_services_answer_to_the_names_that_operators_know() -> None:
    """SPEC 1 and the seeds: `telethon-ingest` on port 8011, and `redis`."""
    names = {"ingest": "telethon-ingest", "valkey": "redis"}
    for service, name in names.items():
        assert name in SERVICES[service]["networks"]["default"]["aliases"]


def test_the_image_is_pinned_and_small() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 2, "what builds is not in what runs"
    assert all(PINNED.fullmatch(base) and "slim" in base for base in bases)
    assert "-r requirements/run.lock" in DOCKERFILE
    installs = re.findall(r"pip install(?:[^\n\\]|\\\n)*", DOCKERFILE)
    assert len(installs) == 3
    assert all("--require-hashes" in one or "--no-deps" in one for one in installs)


def test_the_image_runs_as_nobody_in_particular() -> None:
    users = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    assert users == ["10001:10001"]
    assert DOCKERFILE.index("USER 10001") < DOCKERFILE.index("ENTRYPOINT")
    assert "HEALTHCHECK" in DOCKERFILE
    assert re.search(r'^ENTRYPOINT \["tga"\]$', DOCKERFILE, re.MULTILINE)


def test_the_images_variables_and_ports_are_ours() -> None:
    block = re.search(r"^ENV ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
    assert block is not None
    names = set(re.findall(r"(\w+)=", block[1])) - {"PATH", "PYTHONUNBUFFERED"}
    assert names <= FIELDS
    exposed = re.search(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)
    assert exposed is not None
    assert {int(port) for port in exposed[1].split()} == set(ROLES.values())
    asked = re.search(r"^PORTS = \(([^)]*)\)", (ROOT / "deploy/docker/healthcheck.py").read_text("utf-8"), re.MULTILINE)
    assert asked is not None
    assert {int(port) for port in asked[1].split(",")} == set(ROLES.values())


def test_what_the_image_copies_is_in_the_repository() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert any(f"!{part}" in ignored for part in (source, *map(str, Path(source).parents))), source


# Compose


def test_compose_has_every_engine_and_role() -> None:
    engines = {"postgres", "valkey", "qdrant", "neo4j", "s3", "prometheus", "alertmanager", "grafana"}
    assert set(SERVICES) == engines | set(ROLES) | {"migrate"}
    assert COMPOSE["name"] == "telegram-assistant"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_is_pinned_and_watched(name: str) -> None:
    service = SERVICES[name]
    assert PINNED.fullmatch(service["image"]), service["image"]
    assert service["restart"] in {"unless-stopped", "on-failure"}
    assert name == "migrate" or service["healthcheck"]["test"]
    assert not service.get("privileged")


@pytest.mark.parametrize("name", [*ROLES, "migrate"])
def test_a_role_is_confined_and_known(name: str) -> None:
    service = our_services()[name]
    assert service["user"] == "10001:10001"
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["command"] == [name]
    assert name in COMMANDS
    assert set(service["environment"]) <= FIELDS
    assert {secret.upper() for secret in service["secrets"]} <= SECRETS
    assert not set(service["environment"]) & SECRETS, "secrets come as files"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_no_secret_is_written_down(name: str) -> None:
    """Of the engines neither: what looks like one names a file."""
    environment = SERVICES[name].get("environment", {})
    looks_so = {one for one in environment if re.search(r"PASSWORD|SECRET|TOKEN|AUTH|_KEY(?!_ID)", one)}
    assert {one for one in looks_so if not one.endswith("_FILE")} == set()


def test_the_schema_is_there_before_the_roles_start() -> None:
    for name in ROLES:
        assert SERVICES[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    commands = (ROOT / "docs" / "howto" / "deploy.md").read_text(encoding="utf-8")
    waits = commands.index("kubectl wait --namespace telegram-assistant --for=condition=complete job/migrate")
    assert commands.index("deploy/kubernetes/migrate.yaml") < waits
    assert all(waits < commands.index(f"deploy/kubernetes/{name}.yaml") for name in ROLES)


def test_the_bot_runs_once_and_where_it_is_wanted() -> None:
    """One asks Telegram; `api` has not the bot in it, so there may be several of that."""
    assert [name for name, service in SERVICES.items() if "profiles" in service] == ["bot"]
    assert SERVICES["bot"]["profiles"] == ["bot"]
    assert of_kind("Deployment")["bot"]["spec"]["replicas"] == 1
    assert all("telegram_bot_token" in SERVICES[name]["secrets"] for name in ("api", "bot"))


@pytest.mark.parametrize("name", ROLES)
def test_a_role_answers_where_prometheus_asks(name: str) -> None:
    port = ROLES[name]
    assert SERVICES[name]["healthcheck"]["test"][-1] == str(port)
    config = yaml.safe_load((ROOT / "monitoring/prometheus/prometheus.yml").read_text(encoding="utf-8"))
    job = next(job for job in config["scrape_configs"] if job["job_name"] == name)
    assert job["dns_sd_configs"] == [{"names": [name], "type": "A", "port": port}]


def test_the_two_doors_are_published() -> None:
    published = {port for service in SERVICES.values() for port in service.get("ports", ())}
    assert {"127.0.0.1:8011:8011", "127.0.0.1:8000:8000"} <= published
    assert all(port.startswith("127.0.0.1:") for port in published), "the world comes through a proxy with TLS"


def test_compose_mounts_what_is_there() -> None:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("./secrets/"):
                assert source.removeprefix("./secrets/") in made_secrets()
            elif source.startswith("./"):
                assert (ROOT / source).exists(), f"{name}: {source}"
            else:
                assert source in COMPOSE["volumes"], f"{name}: {source}"


def made_secrets() -> set[str]:
    script = (ROOT / "deploy" / "make-secrets").read_text(encoding="utf-8")
    loops = " ".join(re.findall(r"for name in ((?:[^;\\]|\\\n)*);", script)).replace("\\\n", " ")
    return {*loops.split(), *re.findall(r"^put (\w+) ", script, re.MULTILINE)}


def test_every_secret_is_made_and_declared() -> None:
    declared = COMPOSE["secrets"]
    used = {secret for service in SERVICES.values() for secret in service.get("secrets", ())}
    assert used == set(declared)
    assert {one["file"].removeprefix("secrets/") for one in declared.values()} <= made_secrets()


def test_the_monitoring_is_mounted_where_it_is_expected() -> None:
    grafana = SERVICES["grafana"]
    assert "./monitoring/grafana/provisioning:/etc/grafana/provisioning:ro" in grafana["volumes"]
    assert "./monitoring/grafana/dashboards:/var/lib/grafana/dashboards:ro" in grafana["volumes"]
    assert grafana["environment"]["PROMETHEUS_URL"] == "http://prometheus:9090"
    alertmanager = (ROOT / "monitoring/alertmanager/alertmanager.yml").read_text(encoding="utf-8")
    for path in set(re.findall(r"secrets/\w+", alertmanager)) - {"secrets/"}:
        assert f"./{path}:/etc/alertmanager/{path}:ro" in SERVICES["alertmanager"]["volumes"]
    assert SERVICES["alertmanager"]["working_dir"] == "/etc/alertmanager", "it looks for them where it is started"


def test_the_engines_are_new_enough() -> None:
    versions = {name: SERVICES[name]["image"].split(":")[1].lstrip("v") for name in ("postgres", "qdrant", "neo4j")}
    found = {name: tuple(map(int, version.split("-")[0].split(".")[:2])) for name, version in versions.items()}
    assert found["postgres"] >= (15, 0)
    assert found["qdrant"] >= (1, 16)
    assert found["neo4j"][0] == 5
    assert "noeviction" in str(SERVICES["valkey"]["command"])
    assert "appendonly yes" in str(SERVICES["valkey"]["command"])


# Kubernetes


def test_kubernetes_has_every_role_with_its_budget_and_service() -> None:
    for kind in ("Deployment", "PodDisruptionBudget", "Service"):
        assert set(of_kind(kind)) == set(ROLES), kind
    assert set(of_kind("Job")) == {"migrate"}
    assert {one["metadata"].get("namespace", "telegram-assistant") for one in MANIFESTS} == {"telegram-assistant"}


@pytest.mark.parametrize("name, pod", list(pods()), ids=[name for name, _ in pods()])
def test_a_pod_is_confined(name: str, pod: dict[str, Any]) -> None:
    context, container = pod["securityContext"], pod["containers"][0]
    assert context["runAsNonRoot"]
    assert context["runAsUser"] == 10001
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert container["image"] == OURS
    assert container["args"] == [name]
    assert name in COMMANDS
    assert container["resources"]["requests"].keys() >= {"cpu", "memory"}
    assert container["resources"]["limits"]["memory"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("name", ROLES)
def test_a_deployment_is_probed_and_rolls(name: str) -> None:
    deployment = of_kind("Deployment")[name]["spec"]
    container = deployment["template"]["spec"]["containers"][0]
    assert container["ports"] == [{"name": "http", "containerPort": ROLES[name]}]
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": "http"}
    assert "httpGet" not in container["livenessProbe"], "an engine that is away is no reason to kill us"
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    labels = deployment["template"]["metadata"]["labels"]
    budget = of_kind("PodDisruptionBudget")[name]["spec"]
    assert budget["maxUnavailable"] == 1, "of one alone it must not keep a machine from being emptied"
    for other in (deployment, budget):
        assert other["selector"]["matchLabels"] == labels
    service = of_kind("Service")[name]["spec"]
    assert service["selector"] == labels
    assert service["ports"][0]["port"] == ROLES[name]


def test_settings_and_secrets_are_fields() -> None:
    settings, secrets = of_kind("ConfigMap")["tga-settings"]["data"], of_kind("Secret")["tga-secrets"]["stringData"]
    assert set(settings) <= FIELDS
    assert {name.upper() for name in secrets} <= FIELDS
    assert not any(secrets.values()), "an example without values"
    assert not settings.keys() & {name.upper() for name in secrets}
    mount = of_kind("Deployment")["api"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]
    assert settings["TGA_SECRETS_DIR"] == mount["mountPath"]


def test_scaling_asks_for_metrics_that_exist() -> None:
    scaled = of_kind("ScaledObject")["worker"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == "worker"
    assert "replicas" not in of_kind("Deployment")["worker"]["spec"], "or each apply would undo the scaling"
    known = {metric.name for metric in REGISTRY.collect()}
    assert any("stream_consumer_lag" in trigger["metadata"]["query"] for trigger in scaled["triggers"])
    for trigger in scaled["triggers"]:
        assert trigger["type"] == "prometheus"
        assert trigger["metadata"].keys() >= {"serverAddress", "query", "threshold"}
        assert all(isinstance(value, str) for value in trigger["metadata"].values())
        assert set(re.findall(r"\b(?:stage|stream)_\w+", trigger["metadata"]["query"])) <= known


def test_no_image_is_of_today() -> None:
    """`latest` is another one tomorrow."""
    for path in (ROOT / "Dockerfile", ROOT / "compose.yaml", *(ROOT / "deploy").rglob("*.yaml")):
        assert ":latest" not in path.read_text(encoding="utf-8")


# What the pages say


def test_the_pages_name_commands_that_exist() -> None:
    for name in ("deploy", "upgrade", "backup"):
        page = (ROOT / "docs" / "howto" / f"{name}.md").read_text(encoding="utf-8")
        named = set(re.findall(r"(?:`|^    (?:\S+=\S+ )*)tga ([a-z][a-z-]*)", page, re.MULTILINE))
        assert named <= COMMANDS, named - COMMANDS


def test_what_the_page_tells_to_type_is_whole() -> None:
    """With all its arguments, and for a service that there is."""
    page = (ROOT / "docs" / "howto" / "deploy.md").read_text(encoding="utf-8")
    typed = re.findall(r"(?:docker compose run --rm (?:-T )?(\w+)|\btga) ([a-z][^`|#\n]*)", page)
    assert ("api", "keys create anna prometheus --admin ") in typed
    for service, line in typed:
        assert not service or service in SERVICES
        command, arguments = typer.main.get_command(app), shlex.split(line)
        while subcommands := getattr(command, "commands", {}):
            command = subcommands[arguments.pop(0)]
        command.make_context(line, arguments)
