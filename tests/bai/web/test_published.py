"""What is published about the server is what the server is: description, dashboard, alerts, units."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.openapi.utils import get_openapi
from hypothesis import HealthCheck, settings

from bai.web import openapi
from bai.web.app import create_app
from bai.web.auth.roles import StaticAccess
from bai.web.cluster_loops import ClusterLoops
from bai.web.panel.numbers.pictures import PICTURES
from bai.web.panel.numbers.plots import VALUES
from bai.web.pass_metrics import PassCollector
from providers.fake import Fault, SimulatedLoad
from reconciler.values.figures.pass_figures import KINDS
from tests.bai.web.lab import Lab, bearer
from tests.reconciler.lab import BASE, session

pytestmark = pytest.mark.slow

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.specs.openapi.checks import negative_data_rejection

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
_METRIC = re.compile(r"\bbai_[a-z_]+\b")


def test_what_is_generated_is_fresh() -> None:
    command = [sys.executable, "scripts/gen_server.py", "--check"]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def otherwise(value: Any) -> Any:
    """As another version of FastAPI or pydantic might say the same."""
    if isinstance(value, list):
        return [otherwise(each) for each in value]
    if not isinstance(value, dict):
        return value
    changed = {key: otherwise(each) for key, each in reversed(value.items())}
    if "operationId" in value:
        changed["operationId"] += "_anew"
    if "type" in value or "anyOf" in value:
        changed["title"] = "Another title"
    if value.get("type") == "object" and "additionalProperties" not in value:
        changed["additionalProperties"] = True
    ours = value.keys() & {"operationId", "type", "anyOf", "$ref", "in"}
    return {**changed, "x-of-a-later-version": {"more": [1]}} if ours else changed


def test_the_description_is_the_same_with_every_version(monkeypatch: pytest.MonkeyPatch) -> None:
    made = create_app(ClusterLoops(), StaticAccess())
    published = json.loads((ROOT / "docs" / "openapi.json").read_text())
    assert made.openapi() == published

    def later(**options: Any) -> dict[str, Any]:
        found = get_openapi(**options)
        paths = {path: _operations(each) for path, each in found["paths"].items()}
        models = {name: otherwise(each) for name, each in found["components"]["schemas"].items()}
        return {"paths": paths, "components": {"schemas": {**models, "NewError": {"type": "object"}}}}

    def _operations(found: dict[str, Any]) -> dict[str, Any]:
        return {method: otherwise(each) for method, each in found.items()}

    monkeypatch.setattr(openapi, "get_openapi", later)
    assert openapi.openapi_document(create_app(ClusterLoops(), StaticAccess())) == published


# --- the API keeps to its description ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server that has something to tell, with its loop running."""
    lab = Lab(tmp_path_factory.mktemp("busy"))
    for name, size in (("a", 1), ("b", 2), ("c", 2)):
        lab.write(name, session(name, f"resources: {{cuda.device: {size}}}"))
    lab.once()
    lab.hub.start()
    yield lab
    lab.close()


@pytest.fixture
def described(busy: Lab) -> schemathesis.Schema:
    return schemathesis.openapi.from_asgi("/openapi.json", busy.app)


# The stream does not end; `test_routes.py` reads it.
schema = schemathesis.pytest.from_fixture("described").exclude(path="/api/v1/clusters/{cluster}/stream")


@schema.parametrize()
@settings(
    max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True
)
def test_every_answer_is_a_described_one(case: schemathesis.Case) -> None:
    """Whatever is asked: no 500, no undescribed status, type or shape; nobody gets in without a token."""
    if "cluster" in case.path_parameters:
        case.path_parameters["cluster"] = "here"
    # It does not know that the cluster was put right.
    case.call_and_validate(headers=bearer("admin"), excluded_checks=[negative_data_rejection])


# --- metrics ----------------------------------------------------------------------------------------------


SERVICE = """
apiVersion: bai/v1
kind: Service
metadata: {name: web, project: p}
spec:
  replicas: 1
  headroom: {replicas: 1}
  template: {command: [sleep, inf], resources: {cpu: 1, memory: 1GiB}}
"""


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of all metrics of a server whose loop has seen a bit of everything."""
    lab = Lab(tmp_path_factory.mktemp("metrics"))
    lab.write("base", BASE.replace("{provider: fake}", "{provider: fake, accounting: {sampleInterval: 1m}}"))
    for name, size in (("a", 1), ("b", 2), ("c", 2)):
        lab.write(name, session(name, f"resources: {{cuda.device: {size}}}"))
    lab.write("web", SERVICE)
    lab.world.inject(Fault("create", failure="refused"))
    lab.once()
    for kernel in lab.world.kernels:
        lab.world.use(kernel, SimulatedLoad(cores=1.0, gpu=50))
    for _ in range(10):
        lab.once()
    assert lab.status("/api/v1/clusters") == 200
    text = lab.client.get("/metrics", headers=bearer("viewer")).text
    lab.close()
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if line and not line.startswith("#")}


def test_the_names_are_read(metrics: set[str]) -> None:
    assert {"bai_build_info", "bai_plan_seconds_bucket", "bai_queue_wait_seconds_count"} <= metrics
    assert PassCollector.__doc__


def test_every_picture_of_the_dashboard_shows_something(metrics: set[str]) -> None:
    board = json.loads((DEPLOY / "grafana" / "bai.json").read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    asked += [each["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    assert len(panels) > 15
    for expression in asked:
        named = set(_METRIC.findall(expression))
        assert named and named <= metrics, expression
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))


def test_grafana_and_the_panel_show_the_same_figures() -> None:
    """All that the loop writes down, in pictures of the same names."""
    board = json.loads((DEPLOY / "grafana" / "bai.json").read_text())
    by_title = {panel["title"]: panel for panel in board["panels"]}
    for picture in PICTURES:
        panel = by_title[picture.title]
        asked = " ".join(target["expr"] for target in panel["targets"])
        assert set(_METRIC.findall(asked)) == set(picture.figures), picture.key
        assert panel["description"] == picture.about
    assert [name for each in PICTURES for name in each.figures if name not in KINDS] == []
    assert set(KINDS) == {name for each in PICTURES for name in each.figures}
    assert set(VALUES) == {each.key for each in PICTURES}


def test_every_alert_is_about_a_metric(metrics: set[str]) -> None:
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    for rule in rules:
        named = set(_METRIC.findall(rule["expr"]))
        assert named and named <= metrics, rule["alert"]
        assert rule["annotations"].keys() == {"summary", "action"} and rule["labels"]["severity"]
    tests = (DEPLOY / "prometheus" / "alerts_test.yml").read_text()
    assert {rule["alert"] for rule in rules} <= set(re.findall(r"\bBai\w+", tests))


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian package prometheus)")
def test_alerts_fire_when_they_should_and_only_then() -> None:
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(
            ["promtool", *words],
            cwd=ALERTS.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian package prometheus)")
def test_expressions_of_the_dashboard_are_read_by_prometheus(tmp_path: Path) -> None:
    board = json.loads((DEPLOY / "grafana" / "bai.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    rules = [{"record": f"x:{number}", "expr": text} for number, text in enumerate(found)]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- units ------------------------------------------------------------------------------------------------

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_are_hardened(unit: Path) -> None:
    """At most 2.0 of 10 of what systemd counts as exposure."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", str(unit)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_are_watched(unit: Path) -> None:
    text = unit.read_text()
    for line in (
        "Type=notify",
        "WatchdogSec=",
        "Restart=always",
        "TimeoutStopSec=",
        "WatchdogSignal=SIGKILL",
    ):
        assert f"\n{line}" in text, line


def test_there_are_units() -> None:
    assert [unit.name for unit in UNITS] == ["bai-reconcile.service", "bai-serve.service"]
