"""The files of deploy/ agree with the program, and with each other."""

from __future__ import annotations

import re
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any, get_args
from urllib.request import Request, urlopen

import kubernetes_validate
import pytest
import yaml

from dragoman.core.model import FailureKind
from dragoman.gateway.config import Config, load
from dragoman.gateway.config.tables import ServerTable
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.serve import private_gateway
from dragoman.http.client import Timeouts
from waiting import LONG

DEPLOY = Path(__file__).parents[2] / "deploy"
OPERATE = Path(__file__).parents[2] / "docs/how-to/operate.md"
HTTP_API = Path(__file__).parents[2] / "docs/reference/gateway.md"
TABLES = {"dragoman_turns", "dragoman_schema"}  # of the store


def text(name: str) -> str:
    return (DEPLOY / name).read_text()


def variables(lines: str, sign: str) -> dict[str, str]:
    """Those that are set, and those that are named in comments."""
    return dict(re.findall(rf"^\s*#?([A-Z_]+){sign}(.+)$", lines, re.MULTILINE))


def mounted() -> Config:
    """What stands in the ConfigMap."""
    found = re.search(r"dragoman\.toml: \|\n(.*?)^---", text("kubernetes.yaml"), re.DOTALL | re.MULTILINE)
    assert found
    return load(textwrap.dedent(found[1]), variables(text("kubernetes.yaml"), ": "))


def number(name: str, pattern: str) -> int:
    found = re.search(pattern, text(name))
    assert found, f"{name} has no {pattern}"
    return int(found[1])


def test_the_configurations_have_no_mistakes() -> None:
    host, pods = load(text("dragoman.toml"), variables(text("dragoman.env"), "=")), mounted()
    assert host.loopback
    assert host.named_keys[0].key
    assert not pods.loopback
    assert pods.store_url.startswith("postgresql://")


def test_everything_meets_at_one_port() -> None:
    port = Config().port
    assert load(text("dragoman.toml"), variables(text("dragoman.env"), "=")).port == mounted().port == port
    assert number("Containerfile", r"EXPOSE (\d+)") == port
    assert f"http://127.0.0.1:{port}/healthz" in text("Containerfile")
    assert number("kubernetes.yaml", r"containerPort: (\d+)") == port
    assert f"server 127.0.0.1:{port} " in text("nginx.conf")


def test_who_ends_it_waits_for_longer_than_streams_may_take() -> None:
    grace = load(text("dragoman.toml"), variables(text("dragoman.env"), "=")).grace
    assert number("dragoman.service", r"TimeoutStopSec=(\d+)") > grace
    pause = number("kubernetes.yaml", r'command: \[sleep, "(\d+)"\]')
    assert number("kubernetes.yaml", r"terminationGracePeriodSeconds: (\d+)") > pause + mounted().grace


def objects(name: str) -> dict[str, Any]:
    """Of a manifest, by their kinds."""
    return {each["kind"]: each for each in yaml.safe_load_all(text(name))}


MANIFESTS = ["kubernetes.yaml", "kubernetes-autoscaling.yaml"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_objects_have_the_schemas_of_kubernetes(name: str) -> None:
    for each in yaml.safe_load_all(text(name)):
        kubernetes_validate.validate(each, "1.37", strict=True)


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_mistake_in_any_object_is_seen(name: str) -> None:
    for each in yaml.safe_load_all(text(name)):
        for mistake in ({"unknown": 1}, {"metadata": {"name": 1}}):
            with pytest.raises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(each | mistake, "1.37", strict=True)


def test_the_objects_of_kubernetes_belong_together() -> None:
    found = objects("kubernetes.yaml")
    deployment = found["Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget"]["spec"]["minAvailable"] < deployment["spec"]["replicas"]
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    probes = {
        name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")
    }
    assert probes == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/healthz"}


def test_scaling_begins_before_the_gateway_is_full() -> None:
    scaler = objects("kubernetes-autoscaling.yaml")["HorizontalPodAutoscaler"]["spec"]
    deployment = objects("kubernetes.yaml")["Deployment"]
    assert scaler["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert scaler["minReplicas"] == deployment["spec"]["replicas"]
    (pods,) = [each["pods"] for each in scaler["metrics"] if each["type"] == "Pods"]
    assert int(pods["target"]["averageValue"]) < mounted().limits.in_flight


def test_the_balancer_takes_what_the_gateway_takes() -> None:
    assert number("nginx.conf", r"client_max_body_size (\d+)m") == ServerTable().max_body_mb
    assert number("nginx.conf", r"proxy_read_timeout (\d+)s") > Timeouts().first_byte
    assert "proxy_buffering off" in text("nginx.conf")


@pytest.fixture(scope="module")
def exported() -> set[str]:
    """The names on the page of metrics of a gateway that has done nothing yet."""
    with private_gateway(Config(), AccessLog(lambda line: None)) as running:
        request = Request(f"{running.url}/metrics", headers={"authorization": f"Bearer {running.key}"})
        with urlopen(request, timeout=LONG) as answer:
            return set(re.findall(r"^# TYPE (\w+) ", answer.read().decode(), re.MULTILINE))


WATCHING = [DEPLOY / "alerts.yaml", DEPLOY / "kubernetes-autoscaling.yaml", OPERATE]


@pytest.mark.parametrize("page", WATCHING, ids=lambda page: page.name)
def test_what_is_watched_is_there(page: Path, exported: set[str]) -> None:
    watched = set(re.findall(r"\b(?:dragoman|process)_[a-z_]+[a-z]", page.read_text()))
    assert watched
    assert {name.removesuffix("_bucket") for name in watched} - TABLES <= exported


def test_the_page_of_the_http_api_names_every_metric(exported: set[str]) -> None:
    named = re.findall(r"`(dragoman_[a-z_]+)`", HTTP_API.read_text())
    assert sorted(named) == sorted(name for name in exported if name.startswith("dragoman_"))


def test_the_kinds_of_failures_that_are_watched_exist() -> None:
    found = re.search(r'kind=~"([^"]+)"', text("alerts.yaml"))
    assert found
    assert set(found[1].split("|")) <= set(get_args(FailureKind))


def test_wrong_keys_of_clients_raise_no_alert() -> None:
    """They fail before there is a provider; the same kind from a provider means that our key is wrong."""
    watching = re.findall(r"dragoman_failures_total\{([^}]*unauthenticated[^}]*)\}", text("alerts.yaml"))
    assert watching
    assert all('provider!=""' in labels for labels in watching)


@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")
def test_nginx_takes_its_configuration(tmp_path: Path) -> None:
    folders = "".join(
        f"{name}_temp_path {tmp_path}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    written = text("nginx.conf").replace("/var/log/nginx", str(tmp_path))
    written = written.replace("listen 8080", f"listen unix:{tmp_path}/s")
    (tmp_path / "dragoman.conf").write_text(written)
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{ {folders} include dragoman.conf; }}\n"
    )
    done = subprocess.run(
        ["nginx", "-t", "-p", str(tmp_path), "-c", "nginx.conf"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
