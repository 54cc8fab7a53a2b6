"""Whoever makes pods in a cluster, against the person who imports it: names, labels, variables and claims of
strangers reach a repository, a terminal, and what bai believes."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bai.cli.imports.files import dump_documents, invalid_files, new_files, write_files
from bai.cli.imports.kubernetes import KubernetesImport, import_kubernetes
from bai.settings import Settings
from providers.kubernetes.objects import labels as own
from schemas.files.yaml_reader import read_documents
from schemas.problems.errors.command import AlreadyThere, CommandError, NotConfirmed
from tests.lab.kubernetes.api import kubeconfig
from tests.providers.kubernetes.api_server import ApiServer, Request, listed, serving, status
from tests.providers.kubernetes.specs import forged, gpu, node, resource_slice
from tests.providers.kubernetes.strangers import claimed, stranger

EVIL = "\x1b]0;owned\x07\x1b[2J\u202e"
INJECTED = "x\n---\napiVersion: bai/v1\nkind: Session\nmetadata: {name: evil, project: b}\nspec: {}\n"


class World:
    """A cluster whose API server says what strangers have put there."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = folder / "repository"
        self.pods: list[dict[str, Any]] = []
        self.claims: list[dict[str, Any]] = []
        self.patched: list[Request] = []
        self.conflict: dict[str, Any] | None = None
        self._monkeypatch = monkeypatch

    def answer(self, request: Request) -> Any:
        things: dict[str, list[dict[str, Any]]] = {
            "nodes": [node("n0")],
            "namespaces": [{"metadata": {"name": name}} for name in ("team-a", "team-b", "kube-system")],
            "resourcequotas": [], "pods": self.pods, "resourceclaims": self.claims,
            "resourceslices": [resource_slice(gpu(1))],
        }  # fmt: skip
        kind = request.path.rpartition("/")[2]
        if request.method == "GET" and kind in things:
            return listed(*(_complete(each, f"{kind}-{at}") for at, each in enumerate(things[kind])))
        pod = next((one for one in self.pods if one["metadata"]["name"] == kind), None)
        if pod is None:
            return status(404)
        if request.method == "PATCH":
            self.patched.append(request)
            return 200, pod
        return 200, _complete(self.conflict or pod, kind)

    def run(self, server: ApiServer, **asked: Any) -> tuple[str, bool]:
        folder = self.root.parent
        (folder / "ca.pem").write_bytes(server.certificate.pem)
        config = kubeconfig(folder / "kubeconfig", server.url, folder / "ca.pem", {"token": "secret"})
        self._monkeypatch.setenv("KUBECONFIG", str(config))
        out = io.StringIO()
        wanted = KubernetesImport(self.root, namespace="team-{project}", **asked)
        with contextlib.redirect_stdout(out):
            done = import_kubernetes(Settings(), wanted)
        return out.getvalue(), done

    @property
    def written(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.root)): path.read_text()
            for path in self.root.rglob("*")
            if path.is_file() and path.suffix == ".yaml"
        }


def _complete(found: dict[str, Any], name: str) -> dict[str, Any]:
    """With what the API server gives every object."""
    about = {"name": name, "uid": name, "resourceVersion": "5", **found.get("metadata", {})}
    return {**found, "metadata": about}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


TEXTS = st.text() | st.sampled_from(
    [
        "1e3",
        "0o17",
        "yes",
        "NO",
        "~",
        "null",
        "2026-01-01",
        "12:30",
        "- x",
        "a: b",
        "&a",
        "*a",
        "!!x",
        INJECTED,
    ]
)
NUMBERS = st.integers(-(2**53), 2**53)
VALUES = st.recursive(
    TEXTS | NUMBERS | st.booleans(),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=6,
)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_a_document_is_read_as_it_was_written_or_not_at_all(value: dict[str, Any]) -> None:
    """Whatever a text is, it stays one: it opens no document, and is no number, no truth and no anchor."""
    try:
        text = dump_documents([value, {"kind": "Second"}]).encode()
    except UnicodeEncodeError:
        return  # Half characters, which no API server gives.
    assert text.isascii() and not any(each < 32 and each != 10 for each in text)
    found, problems = read_documents(text, "x.yaml")
    if not problems:  # Such as a key that is empty, or stands for merging.
        assert [each.value for each in found] == [value, {"kind": "Second"}]


def test_texts_of_strangers_are_texts(world: World, tmp_path: Path) -> None:
    pod = stranger(env=[{"name": "A", "value": INJECTED + EVIL}], args=[EVIL, INJECTED])
    pod["metadata"]["annotations"] = {"note": EVIL + INJECTED}
    world.pods = [pod, stranger("held", volumes=[{"name": EVIL, "hostPath": {}}])]
    with serving(tmp_path, world.answer) as server:
        said, _ = world.run(server)
    assert "\x1b" not in said and "\x07" not in said and "\u202e" not in said
    assert "it has the volume" in said
    assert set(world.written) == {"cluster.yaml", "nodes.yaml", "tenancy.yaml"}


@pytest.mark.parametrize(
    "name", ["../../../../etc/cron.d/x", "..", "/etc/passwd", "a/b", "", ".git", "a\x00b"]
)
def test_names_lead_nowhere_else(world: World, tmp_path: Path, name: str) -> None:
    """An API server that is an attacker's gives what no other does."""
    world.pods = [stranger()]
    world.pods[0]["metadata"]["name"] = name
    before = {path for path in tmp_path.rglob("*") if world.root not in path.parents}
    with serving(tmp_path, world.answer) as server:
        said, _ = world.run(server, adopt=True, yes=True)
    assert "no pod of Kubernetes is called so" in said and not world.patched
    after = {path for path in tmp_path.rglob("*") if world.root not in path.parents}
    assert after - before == {
        world.root,
        *(tmp_path / each for each in ("server.pem", "ca.pem", "kubeconfig")),
    }
    assert all(not part.startswith("..") for file in world.written for part in Path(file).parts)


def test_a_link_in_the_folder_leads_nowhere(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    (tmp_path / "outside").mkdir()
    root.mkdir()
    (root / "sessions").symlink_to(tmp_path / "outside")
    with pytest.raises(CommandError, match="leads out of"):
        new_files(root, {"sessions/a/x.yaml": "x"})
    (root / "sessions").unlink()
    files = {"sessions/a/x.yaml": "x"}
    write_files(root, files, new_files(root, files))
    assert new_files(root, files) == []
    with pytest.raises(AlreadyThere):
        new_files(root, {"sessions/a/x.yaml": "y"})
    (root / "mine.yaml").write_text("x")
    with pytest.raises(AlreadyThere):
        new_files(root, files)


@pytest.mark.parametrize("where", ["labels", "annotations", "both"])
def test_labels_of_bai_that_a_stranger_has_written_make_a_pod_nobodys_session(
    world: World, tmp_path: Path, where: str
) -> None:
    pod = stranger()
    if where != "labels":
        pod["metadata"]["annotations"] = {own.LABELS: forged(resource="Session/b/theirs")}
    if where != "annotations":
        pod["metadata"]["labels"] = {**own.MANAGED, "bai.dev/project": "b", "bai.dev/session": "theirs"}
    world.pods = [pod]
    with serving(tmp_path, world.answer) as server:
        said, _ = world.run(server, adopt=True, yes=True)
    assert "it carries labels of bai's already" in said
    assert not world.patched and not any(name.startswith("sessions/") for name in world.written)


def test_secrets_reach_no_document(world: World, tmp_path: Path) -> None:
    source = {"secretKeyRef": {"name": "db", "key": "password"}}
    env = [{"name": "P", "valueFrom": source}, {"name": "AWS_SECRET_ACCESS_KEY", "value": "hush-hush"}]
    world.pods = [stranger(env=env)]
    with serving(tmp_path, world.answer) as server:
        said, _ = world.run(server, store="vault", adopt=True, yes=True)
        asked = [each.path for each in server.requests]
    assert "hush-hush" not in said + "".join(world.written.values())
    assert not any("secrets" in path for path in asked), "they are not even asked for"


def test_a_store_that_is_no_name_is_refused(world: World, tmp_path: Path) -> None:
    source = {"secretKeyRef": {"name": "../../x", "key": "a b"}}
    world.pods = [stranger(env=[{"name": "P", "valueFrom": source}])]
    with serving(tmp_path, world.answer) as server:
        said, _ = world.run(server, store="vault", adopt=True, yes=True)
    assert "this is not STORE/ENTRY" in said and not world.patched


def test_nothing_in_the_cluster_is_touched_unasked(world: World, tmp_path: Path) -> None:
    pod, made = claimed()
    world.pods, world.claims = [pod], [made]
    with serving(tmp_path, world.answer) as server:
        world.run(server)
        with pytest.raises(NotConfirmed):
            world.run(server, adopt=True)
        assert {each.method for each in server.requests} == {"GET"}


def test_a_pod_that_has_become_another_is_left_alone(world: World, tmp_path: Path) -> None:
    """Between a person's yes and the labels, somebody makes it anew under the same name."""
    world.pods = [stranger()]
    world.conflict = stranger(image="evil:1")
    world.conflict["metadata"]["uid"] = "another"
    with serving(tmp_path, world.answer) as server, contextlib.redirect_stderr(io.StringIO()) as err:
        _, done = world.run(server, adopt=True, yes=True)
    assert not done and not world.patched
    assert "it is another one by now" in err.getvalue()
    assert not any(name.startswith("sessions/") for name in world.written)


def test_a_session_that_no_repository_would_take_is_left_out(world: World, tmp_path: Path) -> None:
    """What a person imports is a repository that loads, whatever a stranger's pod says."""
    world.pods = [stranger("good"), stranger("bad", securityContext={"runAsUser": 2**31})]
    with serving(tmp_path, world.answer) as server:
        said, _ = world.run(server)
    assert "cannot be adopted: team-a/bad: " in said and "could be adopted (--adopt): team-a/good\n" in said
    assert invalid_files(world.written) == {}


def test_many_strangers_are_told_of_together(world: World, tmp_path: Path) -> None:
    """Ten thousand pods of somebody are no ten thousand lines."""
    world.pods = [stranger(f"p{number}", hostNetwork=True) for number in range(9)]
    with serving(tmp_path, world.answer) as server:
        said, _ = world.run(server)
    assert (
        "note: cannot be adopted: team-a/p0, team-a/p1, team-a/p2, team-a/p3, team-a/p4 and 4 more:"
        " it has its node's own (hostNetwork)\n"
    ) in said
    assert "team-a/p5" not in said
