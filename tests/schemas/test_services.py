"""What the replicas of a service are, and that no change of its documents is missed."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.loading.document_cache import DocumentCache
from schemas.loading.draft import Draft
from schemas.loading.loader import load, load_directory
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.problem import Problem
from schemas.repository.declared_stores import NO_OWNER
from schemas.repository.repository import Repository
from schemas.rules import membership
from schemas.values.envelope import Resource
from tests.schemas.edits import GROUP, PROJECT, SERVICE, SESSION, START, TEMPLATE, make

WEB = "Service/vision/web"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for edit in START:
        make(tmp_path, edit)
    return tmp_path


def service(template: str, *, name: str = "web", replicas: int = 1, more: str = "") -> str:
    return SERVICE.format(name=name, replicas=replicas, template=template, more=more)


def problems(folder: Path, cache: DocumentCache | None = None) -> list[str]:
    with pytest.raises(InvalidRepository) as raised:
        load_directory(folder, cache=cache)
    return [*map(str, raised.value.problems)]


def test_its_pattern_is_a_session_of_its_name_that_is_no_resource(folder: Path) -> None:
    head = (
        '{{name: {name}, project: vision, labels: {{tier: a}}, annotations: {{bai/protect: "true", why: x}}}}'
    )
    text = SERVICE.replace("{{name: {name}, project: vision}}", head)
    (folder / "service.yaml").write_text(
        text.format(name="web", replicas=2, template="command: [serve], restart: {max: 3}", more="")
    )
    repository = load_directory(folder)
    pattern = repository.patterns[WEB]
    assert pattern.identity == "Session/vision/web" and pattern.identity not in repository.resources
    assert pattern.metadata.labels == {"tier": "a"}
    # Its replicas come and go, and only the service itself is kept from going.
    assert pattern.metadata.annotations == {"why": "x"} and not pattern.protected
    assert repository.resources[WEB].protected
    spec = pattern.spec
    assert (spec.type, spec.restart.policy, spec.restart.max) == ("inference", "always", 3)
    assert spec.command == ("serve",)


def test_a_template_fills_its_pattern_in(folder: Path) -> None:
    pattern = load_directory(folder).patterns[WEB]
    assert pattern.spec.command == ("a", "1") and pattern.spec.type == "inference"
    (folder / "form.yaml").write_text(TEMPLATE.format(n=2).replace("session: {", "session: {type: system, "))
    pattern = load_directory(folder).patterns[WEB]
    assert pattern.spec.command == ("a", "2") and pattern.spec.type == "system"
    (folder / "service.yaml").write_text(service("from: {template: form}, type: interactive, command: [own]"))
    pattern = load_directory(folder).patterns[WEB]
    assert pattern.spec.command == ("own",) and pattern.spec.type == "interactive"


def test_it_is_of_the_cluster_of_its_replicas(folder: Path) -> None:
    for path in folder.glob("*.yaml"):
        path.unlink()
    cluster = "apiVersion: bai/v1\nkind: Cluster\nmetadata: {{name: {0}}}\nspec: {{provider: docker}}\n---\n"
    group = GROUP.replace("{name}", "{1}") + "spec: {{cluster: {0}}}\n---\n"
    services = (
        service("resourceGroup: g1, image: a", name="web"), service("resourceGroup: g3, image: a", name="far")
    )  # fmt: skip
    clusters = "".join(f"{cluster}{group}".format(*names) for names in (("lab", "g1"), ("other", "g3")))
    (folder / "all.yaml").write_text(clusters + "---\n".join((PROJECT, *services)))
    repository = load_directory(folder)
    found = {each.name: repository.cluster_of(each) for each in repository.of(Service)}
    assert found == {"far": "other", "web": "lab"}
    groups_of = {each.name: repository.group_of(each) for each in repository.of(Service)}
    assert {name: group.name for name, group in groups_of.items() if group} == {"far": "g3", "web": "g1"}


def test_every_change_is_seen_in_a_warm_repository(folder: Path) -> None:
    cache = DocumentCache()

    def now() -> Repository:
        found = load_directory(folder, cache=cache)
        anew = load_directory(folder)
        assert found == anew and [*found.patterns] == [*anew.patterns]
        return found

    first = now()
    assert now() is first
    (folder / "second.yaml").write_text(service("command: [a]", name="second"))
    assert [*now().patterns] == ["Service/vision/second", WEB]
    (folder / "second.yaml").write_text(service("command: [b]", name="second", replicas=2))
    assert now().patterns["Service/vision/second"].spec.command == ("b",)
    (folder / "session-1.yaml").write_text(SESSION.format(name="s1", cpu=2, more=""))
    assert [*now().patterns] == ["Service/vision/second", WEB], "a session beside it has changed"
    (folder / "second.yaml").unlink()
    assert [*now().patterns] == [WEB]
    (folder / "form.yaml").write_text(TEMPLATE.format(n=7))
    assert now().patterns[WEB].spec.command == ("a", "7"), "what it is made from has changed"


def test_a_session_that_comes_later_takes_no_name_of_a_service(folder: Path) -> None:
    cache = DocumentCache()
    load_directory(folder, cache=cache)
    for name in ("web", "web-0a1b2c3d-12"):
        (folder / "new.yaml").write_text(SESSION.format(name=name, cpu=1, more=""))
        (found,) = problems(folder, cache)
        assert found.startswith("new.yaml:3:18: BAI-V042 (metadata.name): Service/vision/web")
    (folder / "new.yaml").write_text(SESSION.format(name="web-0a1b2c3d-x", cpu=1, more=""))
    load_directory(folder, cache=cache)


def test_a_session_that_its_replicas_wait_for_does_not_go_unnoticed(folder: Path) -> None:
    cache = DocumentCache()
    (folder / "alone.yaml").write_text(SESSION.format(name="fetch", cpu=1, more=""))
    (folder / "service.yaml").write_text(service("command: [a], dependsOn: [Session/vision/fetch]"))
    load_directory(folder, cache=cache)
    (folder / "alone.yaml").write_text(SESSION.format(name="other", cpu=1, more=""))
    (found,) = problems(folder, cache)
    assert found.startswith("service.yaml:4:") and "(spec.template.dependsOn[0])" in found


def test_sessions_are_not_judged_again_when_a_service_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DocumentCache()
    load_directory(folder, cache=cache)
    judged: list[str] = []
    check = membership.check_membership

    def counted(repository: Repository, resource: Resource) -> object:
        judged.append(resource.identity)
        return check(repository, resource)

    monkeypatch.setattr(membership, "check_membership", counted)
    (folder / "service.yaml").write_text(service("command: [changed]", replicas=3))
    load_directory(folder, cache=cache)
    # Those of the sweep are made anew whenever anything is.
    assert {each for each in judged if "tries" not in each} == {"Session/vision/web"}


def test_what_is_wrong_with_both_is_told_at_once(folder: Path) -> None:
    (folder / "service.yaml").write_text(
        service("command: [a], resourceGroup: none, timeout: 1h", more=", update: {surge: 0}")
    )
    found = problems(folder)
    assert [each.split("(")[1].split(")")[0] for each in found] == [
        "spec.template.resourceGroup",
        "spec.template.timeout",
        "spec.update.surge",
    ]


def test_a_draft_tells_nothing_of_what_its_author_may_not_see(folder: Path) -> None:
    """It is judged as a session's draft is: by what its author knows, and without names beyond it."""

    def write(volume: str) -> None:
        template = f"command: [a], mounts: [{{volume: {volume}, path: /x}}]"
        (folder / "draft.yaml").write_text(service(template, name="d"))

    (folder / "volume.yaml").write_text(
        "apiVersion: bai/v1\nkind: StorageHost\nmetadata: {name: disk}\nspec: {type: nfs, root: /srv/v}\n"
        "---\napiVersion: bai/v1\nkind: Volume\nmetadata: {name: secret}\nspec: {}\n"
    )

    def knows(resource: Resource) -> bool:
        return resource.kind != "Volume"

    def told() -> tuple[Problem, ...]:
        with pytest.raises(InvalidRepository) as raised:
            load(DocumentCache().directory(folder, ()), NO_OWNER, draft=Draft("draft.yaml", knows))
        return raised.value.problems

    write("secrt")
    (found,) = told()
    assert "(spec.template.mounts[0].volume)" in str(found) and "secret" not in str(found)
    write("secret")
    (found,) = told()
    assert "there is no Volume 'secret'" in str(found)


def test_the_parts_of_a_pattern_are_no_documents(folder: Path) -> None:
    repository = load_directory(folder)
    names = {each.name for each in repository.of(Session)}
    assert "web" not in names and "Session/vision/web" not in repository.locations
