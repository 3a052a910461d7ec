"""The images of the control plane and of agents, the compose file and the manifests keep our rules.

No container engine is needed: hadolint reads the Dockerfile, kubectl renders the manifests, and the program itself says
whether it knows the options. Nothing here starts a container.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from hostler import __version__
from hostler.cli.main import cli
from tests.kube.deploy.clusters import ROOT, Kubectl, one, rendered

DEPLOY = ROOT / "deploy" / "control"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
TEXT = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", "")
LINES = [line.split(None, 1) for line in TEXT.splitlines() if line.strip()]
STAGES = {stage.split("\n", 1)[0].split(" AS ")[1]: stage for stage in TEXT.split("\nFROM ")[1:]}
FINAL = {"serve": ["hostler", "serve"], "agent": ["hostler", "agent"]}
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
OVERLAYS = ["base", "overlays/postgres"]


def values(word: str, text: str = TEXT) -> list[str]:
    return [line.split(None, 1)[1] for line in text.splitlines() if line.startswith(f"{word} ")]


def pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", text, re.MULTILINE))


def parse(words: list[str]) -> dict[str, Any]:
    """Return the parameters of a command line of ours; a wrong one raises."""
    command: click.Command = cli
    context = click.Context(cli, **cli.context_settings)
    while isinstance(command, click.Group):
        name, words = words[0], words[1:]
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    return command.make_context("test", list(words), parent=context).params


# -- images -----------------------------------------------------------------------------------------------------------


def test_hadolint_has_nothing_to_say_about_the_images():
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_images_have_the_base_of_the_scheduler_pinned_to_a_patch_release():
    scheduler = re.search(r"^ARG (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert scheduler is not None
    assert values("ARG") == [scheduler[1]]
    assert {line.split()[0] for line in values("FROM")} == {"${PYTHON}"}


@pytest.mark.parametrize("target", FINAL)
def test_image_ends_without_root_and_starts_its_command(target):
    stage = STAGES[target]
    assert values("USER", stage) == ["65532:65532"]
    assert not values("RUN", stage)
    assert values("ENTRYPOINT", stage) == [str(FINAL[target]).replace("'", '"')]


def test_packages_of_images_come_with_hashes():
    for command in values("RUN"):
        for install in re.findall(r"pip install ([^&]*)", command):
            assert "--require-hashes" in install or "--no-deps /opt/wheels/" in install
        assert not re.search(r"\b(apt-get|curl|wget|git)\b", command)
    assert not values("ADD")


@pytest.mark.parametrize(("name", "extra"), [("server.txt", "server"), ("agent.txt", "agent")])
def test_pinned_packages_are_those_of_the_extra_and_of_tests(name, extra):
    tested, here = pins("dev.txt"), pins(name)
    assert {key: tested.get(key) for key in here} == here
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = {re.split(r"[<>=\[;]", line)[0].strip().lower() for line in extras[extra]}
    assert {re.sub("[_.]", "-", one) for one in wanted} <= set(here)


def test_copied_files_exist_and_pass_the_ignore_file():
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [word for line in values("COPY") if not line.startswith("--from") for word in line.split()[:-1]]
    assert "requirements/server.txt" in copied
    for path in copied:
        assert (ROOT / path).exists()
        assert any(path == one or path.startswith(f"{one}/") for one in kept), path
    assert not any(fnmatch.fnmatch(secret, one) for one in kept for secret in (".git", ".venv"))


def test_line_that_compiles_kernels_of_the_service_runs():
    (line,) = [command for command in values("RUN") if "warm_up" in command]
    _, *words = shlex.split(line)
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# -- compose ----------------------------------------------------------------------------------------------------------


def command_of(name: str, service: dict[str, Any]) -> list[str]:
    """Return the words of our program that a service runs."""
    entry = service.get("entrypoint") or FINAL[service["build"]["target"]]
    return [*entry, *service.get("command", [])]


def test_compose_images_and_build_steps_exist():
    for name, service in COMPOSE["services"].items():
        if "build" not in service:
            assert re.search(r":[0-9]+\.[0-9]+", service["image"]), name
            continue
        build = service["build"]
        context = (DEPLOY / "compose" / build["context"]).resolve()
        assert context == ROOT
        assert (context / build["dockerfile"]).is_file()
        assert service["image"] == f"registry.example/hostler-{build['target']}:{__version__}"
        assert build["target"] in FINAL


def test_compose_services_name_networks_volumes_and_services_that_exist():
    for name, service in COMPOSE["services"].items():
        assert set(service["networks"]) <= set(COMPOSE["networks"]), name
        for mount in service.get("volumes", []):
            assert mount.split(":")[0] in COMPOSE["volumes"], name
        for other, how in service.get("depends_on", {}).items():
            assert other in COMPOSE["services"], name
            if how["condition"] == "service_healthy":
                assert "healthcheck" in COMPOSE["services"][other]


@pytest.mark.parametrize("name", ["serve", "node-1", "node-2"])
def test_compose_commands_are_ones_that_the_program_takes(name):
    words = command_of(name, COMPOSE["services"][name])
    assert words[0] == "hostler"
    found = parse(words[1:])
    if name == "serve":
        assert found["listen"] == "0.0.0.0:8470"
        assert "serve" in found["names"]
    else:
        assert (found["driver"], found["name"]) == ("fake", name)
        assert found["server"] == COMPOSE["x-client"]["HOSTLER_SERVER"]


def test_compose_script_that_makes_tokens_is_valid():
    (script,) = [word for word in COMPOSE["services"]["tokens"]["entrypoint"] if "token create" in word]
    called = re.findall(r"hostler (token create .*?) >", script.replace("$$", "$"))
    found = [parse([word.replace("$name", "node-1") for word in line.split()]) for line in called]
    assert ["node-1" in one.values() for one in found] == [True]
    names = re.search(r"for name in (.*); do", script)
    assert names is not None
    assert names[1].split() == [name for name in COMPOSE["services"] if name.startswith("node-")]
    checked = subprocess.run(["sh", "-n", "-c", script.replace("$$", "$")], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_compose_script_that_makes_the_certificate_runs(tmp_path):
    script = COMPOSE["services"]["certificate"]["entrypoint"][-1].replace("/var/lib/hostler", str(tmp_path))
    for _ in range(2):  # the second start keeps the first certificate
        done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        ["openssl", "x509", "-in", tmp_path / "tls" / "server.pem", "-noout", "-ext", "subjectAltName"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "DNS:serve, DNS:localhost" in shown.stdout
    assert (tmp_path / "tls" / "server.key").stat().st_mode & 0o077 == 0


# -- Kubernetes -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kubectl() -> Kubectl:
    return Kubectl(Path("/nowhere"))


def pod_spec(objects: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = one(objects, "StatefulSet")["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("name", OVERLAYS)
def test_manifests_of_the_service_render_with_our_image(kubectl, name):
    spec = pod_spec(rendered(DEPLOY / "kustomize" / name, kubectl))
    images = {container["image"] for container in (*spec["containers"], *spec["initContainers"])}
    assert images == {f"registry.example/hostler-serve:{__version__}"}


@pytest.mark.parametrize("name", OVERLAYS)
def test_containers_of_the_service_have_no_rights_they_do_not_need(kubectl, name):
    objects = rendered(DEPLOY / "kustomize" / name, kubectl)
    spec = pod_spec(objects)
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["automountServiceAccountToken"] is False
    assert not [item for item in objects if "Role" in item["kind"]]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted <= {"state", *(volume["name"] for volume in spec["volumes"])}


@pytest.mark.parametrize("name", OVERLAYS)
def test_arguments_of_the_service_are_ones_that_the_program_takes(kubectl, name):
    objects = rendered(DEPLOY / "kustomize" / name, kubectl)
    (container,) = pod_spec(objects)["containers"]
    found = parse([*FINAL["serve"][1:], *container["args"]])
    port = container["ports"][0]["containerPort"]
    assert found["listen"].endswith(f":{port}")
    service = one(objects, "Service")
    assert found["names"] == (f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc",)
    assert service["spec"]["ports"][0]["port"] == port


def test_overlay_for_postgres_runs_two_replicas_on_a_url_from_a_secret(kubectl):
    objects = rendered(DEPLOY / "kustomize" / "overlays" / "postgres", kubectl)
    assert one(objects, "StatefulSet")["spec"]["replicas"] == 2
    environment = {entry["name"]: entry for entry in pod_spec(objects)["containers"][0]["env"]}
    assert environment["HOSTLER_DATABASE_URL"]["valueFrom"]["secretKeyRef"]["name"] == "hostler-serve-database"
    assert "NUMBA_CACHE_DIR" in environment
    assert one(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
