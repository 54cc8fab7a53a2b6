"""What a cluster's documents say of its services."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.sources import desired as module
from reconciler.sources.desired import DesiredCache, make_desired
from reconciler.values.services.pattern import generation_of
from reconciler.values.state import Desired
from schemas.kinds.session import Session
from schemas.loading.document_cache import DocumentCache
from schemas.loading.loader import load_directory
from schemas.values.canonical import canonical_document
from tests.schemas.edits import CLUSTER, IMAGE, PROJECT, SERVICE, SESSION, START, TEMPLATE, make

WEB = "Service/vision/web"


class World:
    """A folder that is looked at again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.documents, self.cache = folder, DocumentCache(), DesiredCache()
        for edit in START:
            make(folder, edit)

    def desired(self, cluster: str = "lab") -> Desired:
        repository = load_directory(self.folder, cache=self.documents)
        found = make_desired(repository, cluster, repo="r", commit="", cache=self.cache)
        assert found == make_desired(load_directory(self.folder), cluster, repo="r", commit="")
        return found

    def write(self, name: str, text: str) -> None:
        make(self.folder, ("write", name, text))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def web(template: str, replicas: int = 2) -> str:
    return SERVICE.format(name="web", replicas=replicas, template=template, more="")


def test_its_pattern_has_what_sessions_have_of_their_cluster(world: World) -> None:
    found = world.desired().services[WEB]
    spec = found.session.spec
    assert (spec.resource_group, spec.image, spec.env["LEVEL"]) == ("g1", "r.io/tool:1", "1")
    assert spec.restart.policy == "always"
    assert found.generation == generation_of(canonical_document(found.session))
    assert found.service.spec.replicas == 2
    assert not [each for each in world.desired().sessions() if each.startswith("Session/vision/web")]


def test_a_generation_is_another_one_by_what_replicas_are_alone(world: World) -> None:
    def generation() -> str:
        return world.desired().services[WEB].generation

    first, tree = generation(), world.desired().tree
    world.write("service.yaml", web("from: {template: form}", replicas=7))
    assert generation() == first and world.desired().tree != tree
    seen = {first}
    for name, text in (
        ("form.yaml", TEMPLATE.format(n=5)),
        ("cluster.yaml", CLUSTER.format(name="lab", level=2, image="tool", group="g1")),
        ("cluster.yaml", CLUSTER.format(name="lab", level=2, image="tool", group="g2")),
        ("project.yaml", PROJECT + "---\n" + IMAGE.format(tag=2)),
        ("service.yaml", web("from: {template: form}, resources: {cpu: 3}")),
    ):
        tree = world.desired().tree
        world.write(name, text)
        assert generation() not in seen and world.desired().tree != tree, text
        seen.add(generation())


def test_what_has_not_changed_is_the_same_object(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    make_pattern = module.pattern_of

    def counted(service: object, session: Session) -> object:
        made.append(session.name)
        return make_pattern(service, session)  # type: ignore[arg-type]

    world.write("second.yaml", SERVICE.format(name="second", replicas=1, template="command: [a]", more=""))
    first = world.desired().services
    monkeypatch.setattr(module, "pattern_of", counted)

    def again() -> Desired:
        repository = load_directory(world.folder, cache=world.documents)
        return make_desired(repository, "lab", repo="r", commit="", cache=world.cache)

    assert {name: id(each) for name, each in again().services.items()} == {
        name: id(each) for name, each in first.items()
    }
    world.write("session-1.yaml", SESSION.format(name="s1", cpu=2, more=""))
    assert all(again().services[name] is each for name, each in first.items()) and made == []
    world.write("service.yaml", web("command: [changed]"))
    assert again().services["Service/vision/second"] is first["Service/vision/second"]
    assert again().services[WEB].session.spec.command == ("changed",) and made == ["web"]
    (world.folder / "service.yaml").unlink()
    assert [*again().services] == ["Service/vision/second"]


def test_a_service_is_of_one_cluster(tmp_path: Path) -> None:
    cluster = "apiVersion: bai/v1\nkind: Cluster\nmetadata: {{name: {0}}}\nspec: {{provider: process}}\n---\n"
    group = "apiVersion: bai/v1\nkind: ResourceGroup\nmetadata: {{name: {0}}}\nspec: {{cluster: {0}}}\n---\n"
    text = "".join(part.format(name) for name in ("one", "two") for part in (cluster, group))
    text += PROJECT + "---\n"
    text += "---\n".join(
        SERVICE.format(name=name, replicas=1, template=f"command: [a], resourceGroup: {group}", more="")
        for name, group in (("web", "one"), ("far", "two"))
    )
    (tmp_path / "all.yaml").write_text(text)
    repository = load_directory(tmp_path)
    found = {name: make_desired(repository, name, repo="r", commit="") for name in ("one", "two")}
    assert {name: [*each.services] for name, each in found.items()} == {
        "one": ["Service/vision/web"],
        "two": ["Service/vision/far"],
    }
    kept = {name: [each for each in d.documents if each.startswith("Service/")] for name, d in found.items()}
    assert kept == {"one": ["Service/vision/web"], "two": ["Service/vision/far"]}
