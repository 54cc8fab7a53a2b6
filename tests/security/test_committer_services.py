"""Who may commit to one project gets at no service of another through documents, and passes nothing off as a
replica of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.loading.loader import load_directory
from schemas.problems.errors.repository import InvalidRepository
from schemas.repository.declared_stores import NO_OWNER, OwnerStores
from tests.schemas.edits import PROJECT, SERVICE, SESSION, START, SWEEP, TEMPLATE, make
from tests.schemas.test_drafts import STORES

LABELS = "labels: {bai/service: web, bai/generation: 0a1b2c3d}"


def refused(folder: Path, text: str, owner: OwnerStores = NO_OWNER) -> list[str]:
    (folder / "attack.yaml").write_text(text)
    with pytest.raises(InvalidRepository) as raised:
        load_directory(folder, owner)
    return [*map(str, raised.value.problems)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for edit in START:
        make(tmp_path, edit)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        SESSION.format(name="web-0a1b2c3d-9", cpu=1, more=""),
        SESSION.format(name="mine", cpu=1, more=""),
        TEMPLATE.format(n=1).replace("name: form", "name: mine")
        + "---\n"
        + SWEEP.format(values="1").replace("tries", "mine"),
        SERVICE.format(name="mine", replicas=1, template="command: [a]", more=""),
    ],
    ids=["a session of a replica's name", "a session", "a sweep", "a service"],
)
def test_no_document_passes_sessions_off_as_replicas(folder: Path, text: str) -> None:
    found = refused(folder, text.replace("project: vision}", f"project: vision, {LABELS}}}"))
    assert sum("is set by bai alone" in each for each in found) >= 2


def test_no_session_takes_the_name_of_a_replica_before_it_is_there(folder: Path) -> None:
    """Else its own program would be there under the replica's identity."""
    (found,) = refused(folder, SESSION.format(name="web-0a1b2c3d-1", cpu=1, more=""))
    assert "Service/vision/web names its replicas so" in found


def test_no_sweep_makes_a_session_of_such_a_name(folder: Path) -> None:
    sweep = SWEEP.format(values="1").replace("name: tries", "name: web-0a1b2c3d")
    (found,) = refused(folder, sweep)
    assert "Service/vision/web names its replicas so" in found


def test_a_service_of_one_project_is_nothing_to_another(folder: Path) -> None:
    """Names are a project's own: neither collides, and a template of another project is none."""
    other = PROJECT.replace("vision", "other")
    own = SESSION.format(name="web", cpu=1, more="").replace("project: vision", "project: other")
    (folder / "other.yaml").write_text(f"{other}---\n{own}")
    assert load_directory(folder).patterns.keys() == {"Service/vision/web"}
    stolen = SERVICE.format(name="thief", replicas=1, template="from: {template: form}", more="")
    (found,) = refused(folder, stolen.replace("project: vision", "project: other"))
    assert "there is no session template 'form'" in found


@pytest.mark.parametrize("path", ['"/x\\r\\nHost: evil"', '"/x HTTP/1.1"', '"//evil\\u0000"', "http://evil/"])
def test_no_probe_smuggles_a_request(folder: Path, path: str) -> None:
    template = "command: [a], ports: [{name: api, port: 80}]"
    more = f", readiness: {{http: {{port: api, path: {path}}}}}"
    (found,) = refused(folder, SERVICE.format(name="mine", replicas=1, template=template, more=more))
    assert "(spec.readiness.http.path)" in found


def test_no_secret_that_a_session_may_not_have_is_had_through_a_template(folder: Path) -> None:
    text = SERVICE.format(
        name="mine", replicas=1, template="command: [a], secrets: [{env: KEY, from: theirs/KEY}]", more=""
    )
    (found,) = refused(folder, text, STORES)
    assert "(spec.template.secrets[0].from)" in found and "BAI-V057" in found


@pytest.mark.parametrize(
    "more",
    [
        'url: "http://169.254.169.254/"', "server: other.example", "address: other.example:9090",
        "headers: {Authorization: x}", "queryFrom: env:HOME",
    ],
)  # fmt: skip
def test_no_document_says_where_the_server_connects_to(folder: Path, more: str) -> None:
    """Nor with which words besides a query."""
    scaled = f", autoscaling: {{max: 3, prometheus: {{query: up, target: 1, {more}}}}}"
    text = SERVICE.format(name="scaled", replicas=1, template="command: [a]", more=scaled)
    assert any("unknown field" in each for each in refused(folder, text))
