"""Images on real engines from real registries: fetched when missing, early, by digest, with a password that
stays where it belongs."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from providers.images import PullProgress, PullRequest
from reconciler.values.encoding.plan_json import dump_plan
from reconciler.values.plan import Plan
from reconciler.values.results import ApplyEvent, ApplyResult
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.node import PullFailed
from schemas.problems.errors.registry import (
    NoSuchImage,
    RegistryRefused,
    RegistryUnreachable,
    RegistryUntrusted,
)
from tests.lab.docker import IMAGE, Engine, Engines
from tests.lab.registry import USER, LabRegistry, StartRegistry, tar_of
from tests.lab.stores import NAME, environment, owner_file

pytestmark = pytest.mark.xdist_group("docker-clusters")
PASSWORD = "correct horse battery staple"

HARDWARE = "{architecture: x86_64, numaNodes: [{id: 0, cpus: '0-1', memory: 8GiB}]}"


def node(engine: Engine, architecture: str = "x86_64") -> str:
    hardware = HARDWARE.replace("x86_64", architecture)
    return (
        f"---\napiVersion: bai/v1\nkind: Node\nmetadata: {{name: {engine.name}}}\n"
        f"spec: {{address: localhost, docker: {{socket: '{engine.socket}'}}, hardware: {hardware}}}\n"
    )


BASE = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: lab}
spec: {provider: docker}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: all}
---
apiVersion: bai/v1
kind: Project
metadata: {name: p}
"""


def document(kind: str, name: str, spec: str) -> str:
    project = ", project: p" if kind == "Session" else ""
    return f"---\napiVersion: bai/v1\nkind: {kind}\nmetadata: {{name: {name}{project}}}\nspec: {spec}\n"


def session(name: str, image: str, resources: str = "{cpu: 100m, memory: 32MiB}") -> str:
    return document("Session", name, f"{{image: {image}, command: [sleep, '600'], resources: {resources}}}")


class Repo:
    """Documents in a folder, planned and applied."""

    def __init__(self, folder: Path, engines: list[Engine]) -> None:
        self.folder = folder
        self.nodes = "".join(map(node, engines))
        self.events: list[ApplyEvent] = []

    def write(self, *documents: str) -> None:
        (self.folder / "all.yaml").write_text(BASE + self.nodes + "".join(documents))

    def open(self) -> Workspace:
        return Workspace.open(self.folder, state=self.folder / "store.db")

    def plan(self) -> Plan:
        with self.open() as workspace:
            return workspace.plan()

    def apply(self) -> ApplyResult:
        with self.open() as workspace:
            plan = workspace.plan()
            return workspace.apply(plan, holder="test", on_event=self.events.append)

    def pulled(self) -> set[str]:
        return {event.pull.image for event in self.events if event.pull is not None and event.pull.over}


@pytest.fixture
def one(engines: Engines) -> Iterator[Engine]:
    engine = engines(1)[0]
    clean(engine)
    yield engine
    clean(engine)


def clean(engine: Engine) -> None:
    """Without containers, and with no image but the lab's own."""
    engine.wipe()
    api = engine.api()
    for image in api.images():
        if IMAGE not in (image.get("RepoTags") or []):
            api.remove_image(image["Id"], force=True)
    api.close()


def busybox(engine: Engine) -> bytes:
    """The lab's root file system as a layer."""
    api = engine.api()
    made = api.create_container(IMAGE)
    try:
        return b"".join(api.export(made["Id"]))
    finally:
        api.remove_container(made["Id"])
        api.close()


@pytest.fixture
def repo(one: Engine, tmp_path: Path) -> Repo:
    return Repo(tmp_path, [one])


def registered(lab: LabRegistry, more: str = "") -> str:
    return document("Registry", "lab", f"{{address: '{lab.address}', plainHttp: true{more}}}")


LOGIN = f", credentials: {{username: {USER}, passwordFrom: 'env/LAB_PASSWORD'}}"


def test_a_missing_image_is_fetched_with_a_password_that_is_kept_nowhere(
    one: Engine,
    repo: Repo,
    registry: StartRegistry,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    stores = owner_file(tmp_path_factory.mktemp("owner") / NAME, environment("LAB_PASSWORD"))
    monkeypatch.setenv("BAI_SECRET_STORES", str(stores))
    lab = registry(password=PASSWORD, namespace=one.namespace)
    lab.push("team/tool:1", layers=(busybox(one),))
    image = document("Image", "tool", "{registry: lab, reference: 'team/tool:1'}")
    repo.write(registered(lab, LOGIN), image, session("s", "tool"), session("t", "tool"))
    monkeypatch.delenv("LAB_PASSWORD", raising=False)
    without = repo.apply()
    failed = [result.error for result in without.results if result.outcome == "failed"]
    assert len(failed) == 2
    assert "LAB_PASSWORD" in failed[0]
    monkeypatch.setenv("LAB_PASSWORD", PASSWORD)
    plan = dump_plan(repo.plan())
    done = repo.apply()
    assert done.ok, [result.error for result in done.results]
    assert repo.pulled() == {f"{lab.address}/team/tool:1"}
    assert not repo.plan().changes
    api = one.api()
    found = [api.inspect_container(each["Id"]) for each in api.containers()]
    api.close()
    assert {each["Config"]["Image"] for each in found} == {f"{lab.address}/team/tool:1"}
    with repo.open() as workspace:
        phases = [event.after for event in workspace.store.events("lab", resource="Session/p/s")]
        facts = workspace.store.images()
    assert "PULLING" in phases
    assert facts[f"{lab.address}/team/tool:1"][0].platforms.keys() == {"amd64"}
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert PASSWORD not in plan + str(found)
    assert PASSWORD.encode() not in kept


def test_an_image_is_brought_early_and_only_once(one: Engine, repo: Repo, registry: StartRegistry) -> None:
    lab = registry(namespace=one.namespace)
    lab.push("tool:1", layers=(busybox(one),))
    image = document("Image", "tool", "{registry: lab, reference: 'tool:1', prePull: {all: true}}")
    repo.write(registered(lab), image)
    plan = repo.plan()
    action = next(action for action in plan.changes if action.id == "Image/tool")
    assert action.after is not None
    assert [(pull.node, pull.image) for pull in action.after.pulls] == [(one.name, f"{lab.address}/tool:1")]
    assert repo.apply().ok
    assert not repo.plan().changes
    one.docker("rmi", f"{lab.address}/tool:1")
    plan = repo.plan()
    assert [(action.id, action.verb, action.why) for action in plan.changes] == [
        ("Image/tool", "update", f"not on {one.name}")
    ]
    repo.write(registered(lab), image, session("s", "tool"))
    repo.events.clear()
    assert repo.apply().ok
    order = [(event.step, event.state) for event in repo.events if event.kind == "step"]
    assert order.index((f"pull {one.name}", "done")) < min(
        at for at, (step, state) in enumerate(order) if step.startswith("create") and state == "started"
    )
    assert not repo.plan().changes


def test_a_pinned_image_is_run_by_digest_until_another_is_learned(
    one: Engine, repo: Repo, registry: StartRegistry
) -> None:
    from reconciler.observe.images import known_images, scan_registries
    from schemas.images.facts import ImageFacts

    lab = registry(namespace=one.namespace)
    layer = busybox(one)
    first = lab.push("tool:1", layers=(layer,))
    image = document(
        "Image", "tool", "{registry: lab, reference: 'tool:1', pin: digest, prePull: {all: true}}"
    )
    repo.write(registered(lab), image, session("s", "tool"))
    assert any("bai images scan" in word for action in repo.plan().changes for word in action.warnings)
    outside = registry()  # the same content where this process reaches it: a node's loopback is its own
    assert outside.push("tool:1", layers=(layer,)) == first

    def look() -> None:
        with repo.open() as workspace:
            for known in known_images(workspace.repository, workspace.desired().sessions()):
                there = known.reference
                known = type(known)(type(there)(outside.address, there.path, there.tag), None, ())
                for _, found in scan_registries(outside_repository(workspace, outside), [known], str):
                    assert isinstance(found, ImageFacts), found
                    named = found.model_copy(update={"reference": str(there)})
                    workspace.store.save_images([named], 1.0)

    look()
    assert repo.apply().ok
    api = one.api()
    assert (
        api.inspect_container(api.containers()[0]["Id"])["Config"]["Image"] == f"{lab.address}/tool@{first}"
    )
    second = lab.push("tool:1", layers=(layer,), labels={"new": "1"})
    outside.push("tool:1", layers=(layer,), labels={"new": "1"})
    assert not repo.plan().changes
    look()
    plan = repo.plan()
    assert [action.id for action in plan.changes] == ["Image/tool"]
    repo.write(registered(lab), image, session("s", "tool"), session("t", "tool"))
    assert repo.apply().ok
    images = {api.inspect_container(each["Id"])["Config"]["Image"] for each in api.containers()}
    api.close()
    assert images == {f"{lab.address}/tool@{first}", f"{lab.address}/tool@{second}"}
    assert not repo.plan().changes


def outside_repository(workspace: Workspace, lab: LabRegistry):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    from schemas.kinds.image import Registry

    made = Registry.model_validate(
        {
            "apiVersion": "bai/v1",
            "kind": "Registry",
            "metadata": {"name": "outside"},
            "spec": {"address": lab.address, "plainHttp": True},
        }
    )
    return replace(workspace.repository, resources={made.identity: made})


def test_amounts_and_architectures_that_labels_tell_keep_sessions_waiting(
    one: Engine, repo: Repo, registry: StartRegistry
) -> None:
    lab = registry(namespace=one.namespace)
    lab.push("big:1", layers=(busybox(one),), labels={"ai.backend.resource.min.mem": "64m"})
    big = f"'{lab.address}/big:1'"
    repo.write(session("s", big))
    assert repo.apply().ok  # nothing was known of it
    repo.write(session("s", big), session("small", big))
    plan = repo.plan()
    wait = next(wait for wait in plan.waits if wait.session == "Session/p/small")
    assert [reason.code for reason in wait.reasons] == ["image"]
    assert "needs at least 64MiB of memory" in wait.reasons[0].message
    arm = document("Image", "arm", f"{{reference: {big}, architectures: [arm64]}}")
    repo.write(arm, session("a", "arm", "{cpu: 100m, memory: 64MiB}"))
    wait = next(wait for wait in repo.plan().waits if wait.session == "Session/p/a")
    assert "aarch64" in " ".join(reason.message for reason in wait.reasons)


def test_what_cannot_be_fetched_is_said_and_nothing_is_left(
    one: Engine, repo: Repo, registry: StartRegistry
) -> None:
    lab = registry(namespace=one.namespace)
    repo.write(session("s", f"'{lab.address}/nothing:1'"))
    done = repo.apply()
    error = next(result.error for result in done.results if result.action == "Session/p/s")
    assert "BAI-E0332" in error
    assert "nothing" in error
    api = one.api()
    assert api.containers(all=True) == []
    api.close()
    with repo.open() as workspace:
        assert workspace.store.recorded("lab")["Session/p/s"].phase == "ERROR"
    never = document("Image", "never", f"{{reference: '{lab.address}/nothing:1', pullPolicy: never}}")
    repo.write(never, session("s", "never"))
    error = next(r.error for r in repo.apply().results if r.action == "Session/p/s")
    assert "does not have the image" in error


# The provider alone


@pytest.fixture
def provider(one: Engine) -> Iterator[DockerProvider]:
    made = open_docker({}, machines=[one.endpoint()])
    assert isinstance(made, DockerProvider)
    yield made
    made.close()


def test_many_askers_fetch_an_image_once(
    one: Engine, provider: DockerProvider, registry: StartRegistry
) -> None:
    lab = registry(namespace=one.namespace)
    lab.push("tool:1", layers=(busybox(one),))
    request = PullRequest(one.name, f"{lab.address}/tool:1")
    news: list[PullProgress] = []
    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda: answers.append(provider.pull(request, news.append))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 6
    log = (lab.folder / "log").read_text()
    blobs = {line.split("/blobs/")[1][:71] for line in log.splitlines() if "GET /v2/tool/blobs/" in line}
    fetched = [line for line in log.splitlines() if "GET /v2/tool/blobs/" in line]
    assert len(fetched) == len(blobs)
    last = max(news, key=lambda each: each.over)
    assert last.layers_done == last.layers == 1
    assert provider.pull(request, news.append) is False
    assert provider.pull(PullRequest(one.name, request.image, "always"), news.append) is True
    held, missed = provider.images(frozenset({one.name, "elsewhere"}))
    assert request.image in {name for image in held[one.name] for name in image.names}
    assert missed == {}


def test_refusals_of_the_engine_are_told_apart(
    one: Engine, provider: DockerProvider, registry: StartRegistry
) -> None:
    closed = registry(password=PASSWORD, namespace=one.namespace)
    closed.push("tool:1", layers=(busybox(one),))
    wrong = registry(namespace=one.namespace)

    def refusal(image: str) -> BaiError:
        with pytest.raises(BaiError) as caught:
            provider.pull(PullRequest(one.name, image), lambda _: None)
        assert one.name in str(caught.value) or isinstance(caught.value, NoSuchImage)
        return caught.value

    assert isinstance(refusal(f"{closed.address}/tool:1"), RegistryRefused)
    assert isinstance(refusal(f"{wrong.address}/tool:1"), NoSuchImage)
    assert isinstance(refusal("127.0.0.1:1/tool:1"), RegistryUnreachable)
    # Beyond the loopback an engine wants TLS.
    port = int(wrong.address.rpartition(":")[2])
    with reachable(one, wrong.address, port):
        assert isinstance(refusal(f"{one.address}:{port}/tool:1"), RegistryUntrusted)


@contextlib.contextmanager
def reachable(engine: Engine, address: str, port: int) -> Iterator[None]:
    """A server of the node's loopback on the node's own address too."""
    rule = ["OUTPUT", "-d", engine.address, "-p", "tcp", "--dport", str(port), "-j", "DNAT"]
    rule += ["--to-destination", address]
    added = engine.run(["iptables", "-t", "nat", "-I", *rule])
    assert added.returncode == 0, added.stderr
    try:
        yield
    finally:
        engine.run(["iptables", "-t", "nat", "-D", *rule])


def test_a_full_disk_is_said_and_leaves_the_engine_usable(engines: Engines, registry: StartRegistry) -> None:
    engine = engines.private(disk="48m")
    try:
        lab = registry(namespace=engine.namespace)
        lab.push("big:1", layers=(tar_of({"noise": os.urandom(80 << 20)}),))
        lab.push("tool:1", layers=(tar_of({"a": b"b"}),))
        provider = open_docker({}, machines=[engine.endpoint()])
        with pytest.raises(PullFailed) as caught:
            provider.pull(PullRequest(engine.name, f"{lab.address}/big:1"), lambda _: None)
        assert "free some of its disk" in str(caught.value)
        assert provider.pull(PullRequest(engine.name, f"{lab.address}/tool:1"), lambda _: None)
        provider.close()
    finally:
        engine.close()
