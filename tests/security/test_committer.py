"""Who may commit documents, and wants what bai's own user can read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.secrets.reader import SecretReader
from schemas.kinds.secret_store import SecretStore
from schemas.problems.errors.plan import SecretMissing
from schemas.repository.declared_stores import DeclaredStore, DeclaredStores
from tests.bai.conftest import CLUSTER, Repo
from tests.lab.sops import Sops

CANARY = "canary-7c1f0b"
PLACE = re.compile(r"\.yaml:\d+:\d+: BAI-V05[678]")
OTHER = """
apiVersion: bai/v1
kind: Project
metadata: {name: other}
spec: {domain: default}
"""


@dataclass(frozen=True)
class Said:
    code: int
    text: str


class Site:
    """A cluster on this machine: its repository, where the committer writes, and beside it its owner's file.
    bai runs with `CANARY` in its environment and in files, as a server does with its own secrets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = folder / "repository"
        self.repository.mkdir()
        self.store = folder / "store"
        self.store.mkdir()
        (folder / "private").write_text(f"{CANARY}\n")
        self.owner = folder / "secret-stores.yaml"
        self.environment = {
            "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "NO_COLOR": "1",
            "XDG_CONFIG_HOME": str(folder / "config"), "WEBHOOK_SECRET": CANARY, "GRANTED": "granted-9e2",
        }  # fmt: skip
        process = f"spec: {{provider: process, stateRoot: {folder / 'kernels'}}}"
        self.write("cluster", CLUSTER.replace("spec: {provider: process}", process) + "---" + OTHER)

    def write(self, name: str, text: str) -> None:
        (self.repository / f"{name}.yaml").write_text(text)

    def session(self, source: str, *, project: str = "demo", name: str = "thief") -> None:
        document = {
            "apiVersion": "bai/v1", "kind": "Session", "metadata": {"name": name, "project": project},
            "spec": {
                "type": "batch", "resources": {"cpu": "0.1", "memory": "32MiB"},
                "command": ["sh", "-c", 'echo "got $STOLEN"'], "secrets": [{"env": "STOLEN", "from": source}],
            },
        }  # fmt: skip
        self.write(name, json.dumps(document))

    def declare(self, *stores: dict[str, Any]) -> None:
        """As the owner."""
        self.owner.write_text("---\n".join(yaml.safe_dump(each) for each in stores))
        self.environment["BAI_SECRET_STORES"] = str(self.owner)

    def directory(self, *entries: str, **spec: Any) -> None:
        spec = {"projects": ["demo"], "entries": list(entries), **spec}
        self.declare(store("team", directory={"path": str(self.store)}, **spec))

    def bai(self, *words: str) -> Said:
        said = Repo(self.repository, self.environment)(*words)
        return Said(said.code, f"{said.out}{said.err}")

    def refused(self, what: str) -> str:
        """By `validate`, `plan` and `apply` alike, at a place; nothing has been read, and nothing runs."""
        said = [self.bai("validate"), self.bai("plan"), self.bai("apply", "--yes")]
        for each in said:
            assert each.code == 1 and what in each.text and CANARY not in each.text, each.text
            assert PLACE.search(each.text) or "BAI-V033" in each.text, each.text
        assert not list((self.folder / "kernels").glob("*"))
        return said[0].text

    def got(self, name: str = "thief") -> str:
        """What the session printed."""
        applied = self.bai("apply", "--yes")
        assert applied.code == 0, applied.text
        return self.bai("logs", name, "--follow").text

    def kept(self, value: str) -> list[Path]:
        """Files with this value in them, but for the owner's store."""
        files = (each for each in self.folder.rglob("*") if each.is_file() and not each.is_symlink())
        return [
            each for each in files if value.encode() in each.read_bytes() and self.store not in each.parents
        ]


def store(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "bai/v1", "kind": "SecretStore", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


# References


@pytest.mark.parametrize(
    "source",
    [
        "env:WEBHOOK_SECRET", "file:/etc/shadow", "file:{private}", "file:/proc/self/environ",
        "file:/dev/fd/../../proc/self/environ", "ENV:WEBHOOK_SECRET", "env:WEBHOOK_SECRET/x", "{private}",
        "team/../private", "team/..%2fprivate", "team//etc/passwd", "/etc/passwd", "../private", "team/.",
        "team/..", "team/a\nb", "team/a\0b", "team/a/b", "team/é", "TEAM/a", "team/", "team",
    ],
)  # fmt: skip
def test_a_reference_names_nothing_of_the_machine(site: Site, source: str) -> None:
    site.directory("*")
    (site.store / "a").write_text("granted")
    site.session(source.format(private=site.folder / "private"))
    site.refused("STORE/ENTRY")


def test_what_is_granted_arrives_and_is_kept_nowhere(site: Site) -> None:
    site.directory("token")
    (site.store / "token").write_text("granted-secret-5\n")
    site.session("team/token")
    planned = site.bai("plan", "--out", str(site.folder / "plan.json"))
    assert planned.code == 0 and "granted-secret-5" not in planned.text
    assert "granted-secret-5" not in (site.folder / "plan.json").read_text()
    assert "got granted-secret-5" in site.got()
    kept = site.kept("granted-secret-5")
    assert kept  # what it printed
    assert all(site.folder / "kernels" in path.parents for path in kept), kept


def test_variables_that_the_owner_lists(site: Site) -> None:
    site.declare(store("team", projects=["demo"], entries=["GRANTED"], environment={}))
    site.session("team/WEBHOOK_SECRET")
    assert "lists no entry 'WEBHOOK_SECRET'" in site.refused("BAI-V057")
    site.session("team/GRANTED")
    assert "got granted-9e2" in site.got()


def test_patterns_open_no_more_variables_than_are_named(site: Site) -> None:
    site.declare(store("team", projects=["*"], entries=["*"], environment={}))
    said = site.bai("validate")
    assert said.code == 1 and "secret-stores.yaml:" in said.text and "write each variable's name" in said.text


# Grants


@pytest.mark.parametrize("spec", [{"projects": ["other"]}, {"infrastructure": True}])
def test_a_session_of_another_project(site: Site, spec: dict[str, Any]) -> None:
    (site.store / "token").write_text(CANARY)
    site.directory("token", projects=spec.pop("projects", []), **spec)
    site.session("team/token")
    assert "not granted to sessions of project 'demo'" in site.refused("BAI-V057")


def test_infrastructure_has_only_what_is_granted_to_it(site: Site) -> None:
    (site.store / "token").write_text(CANARY)
    site.directory("token", projects=["*"])
    site.write(
        "registry",
        "apiVersion: bai/v1\nkind: Registry\nmetadata: {name: evil}\n"
        "spec: {address: evil.example, credentials: {username: u, passwordFrom: team/token}}\n",
    )
    assert "not granted to infrastructure" in site.refused("BAI-V057")


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        ("Registry", "{address: r.example, credentials: {username: u, passwordFrom: X}}", "passwordFrom"),
        ("Registry", "{address: r.example, caFrom: X}", "caFrom"),
        ("Notification", "{to: {slack: {urlFrom: X}}, events: [all]}", "urlFrom"),
        (
            "Notification",
            "{to: {http: {urlFrom: team/a, headersFrom: {A: X}}}, events: [all]}",
            "headersFrom",
        ),
        ("NodeProfile", "{os: debian-12, controlPlane: {sshKeyFrom: X}}", "sshKeyFrom"),
        ("Node", "{resourceGroup: local, address: 10.0.0.9, ssh: {keyFrom: X}}", "keyFrom"),
        ("Node", "{resourceGroup: local, address: 10.0.0.9, ssh: {knownHostsFrom: X}}", "knownHostsFrom"),
        ("Node", "{resourceGroup: local, docker: {host: 'tcp://a:1', tls: {caFrom: X}}}", "caFrom"),
    ],
)
@pytest.mark.parametrize(
    "source", ["env:WEBHOOK_SECRET", "file:/etc/shadow", "/etc/shadow", "team/not-listed"]
)
def test_every_kind_that_names_secrets(site: Site, kind: str, spec: str, path: str, source: str) -> None:
    site.directory("a", infrastructure=True)
    site.write(
        "evil",
        f"apiVersion: bai/v1\nkind: {kind}\nmetadata: {{name: evil}}\nspec: {spec.replace('X', source)}\n",
    )
    said = site.bai("validate")
    assert said.code == 1 and f"evil.yaml:4:{0 or ''}" in said.text and path in said.text, said.text


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("Node", "ssh: {key: /etc/shadow}"),
        ("Node", "ssh: {knownHosts: /etc/shadow}"),
        ("Node", "docker: {host: 'tcp://a:1', tls: {ca: /etc/shadow}}"),
        ("Registry", "address: r.example, ca: /etc/shadow"),
        ("Notification", "events: [all], to: {email: {server: a, from: a@b, to: [a@b], ca: /dev/stdin}}"),
        (
            "NodeProfile",
            "os: debian-12, repositories: {apt: [{name: a, uri: 'http://a', suites: [./], keyFile: /etc/x}]}",
        ),
    ],
)
def test_no_path_of_the_machine_that_runs_bai_is_left(site: Site, kind: str, field: str) -> None:
    site.write("evil", f"apiVersion: bai/v1\nkind: {kind}\nmetadata: {{name: evil}}\nspec: {{{field}}}\n")
    said = site.bai("validate")
    assert said.code == 1 and "evil.yaml:4:" in said.text and "BAI-V020" in said.text, said.text


@pytest.mark.parametrize(
    "query",
    [
        "passwordFrom=env:WEBHOOK_SECRET", "pass%77ordFrom=env:WEBHOOK_SECRET",
        "sslmode=require&sslkey=/etc/x", "passfile=/etc/shadow", "servicefile=/tmp/x&service=a",
        "sslrootcert=/etc/shadow", "keyFile=/etc/shadow",
        "SSLKEY=/etc/x",
    ],
)  # fmt: skip
def test_a_store_of_documents_names_no_files_and_passwords(site: Site, query: str) -> None:
    state = f"spec: {{state: 'postgresql://bai@evil.example/bai?{query}', provider:"
    text = (site.repository / "cluster.yaml").read_text()
    site.write("cluster", text.replace("spec: {provider:", state))
    said = site.bai("validate")
    assert said.code == 1 and "cluster.yaml:4:" in said.text and "BAI-V033" in said.text, said.text


# Stores


@pytest.mark.parametrize("backend", ["directory: {path: /etc}", "environment: {}", "plugin: {name: vault}"])
def test_a_commit_that_opens_the_machine(site: Site, backend: str) -> None:
    site.write(
        "store",
        "apiVersion: bai/v1\nkind: SecretStore\nmetadata: {name: mine}\n"
        f"spec: {{projects: ['*'], entries: [shadow], {backend}}}\n",
    )
    site.session("mine/shadow")
    assert "store.yaml:4:" in site.refused("--secret-stores")


@pytest.mark.parametrize("named", [True, False])
def test_the_owners_file_does_not_lie_in_the_repository(site: Site, named: bool) -> None:
    """Not by a link from outside, either."""
    inside = site.repository / ".secret-stores.yaml"
    environment = store("team", projects=["*"], entries=["WEBHOOK_SECRET"], environment={})
    inside.write_text(yaml.safe_dump(environment))
    site.session("team/WEBHOOK_SECRET")
    if named:
        site.environment["BAI_SECRET_STORES"] = str(inside)
    else:
        (site.folder / "config" / "bai").mkdir(parents=True)
        (site.folder / "config" / "bai" / "secret-stores.yaml").symlink_to(inside)
    for words in (["validate"], ["apply", "--yes"]):
        said = site.bai(*words)
        assert said.code == 1 and "lies in the repository" in said.text and CANARY not in said.text


def test_a_name_of_the_owners_is_not_taken_over(site: Site, sops: Sops) -> None:
    site.environment |= sops.environment
    site.directory("token")
    (site.store / "token").write_text("granted")
    sops.encrypt(site.repository / "mine.json", {"token": CANARY})
    mine = store("team", projects=["demo"], entries=["token"], sops={"file": "mine.json"})
    site.write("store", yaml.safe_dump(mine))
    site.session("team/token")
    assert "the cluster's owner declares a store 'team'" in site.refused("BAI-V056")


def test_without_an_owners_file_a_plan_says_what_is_needed_and_apply_refuses(site: Site) -> None:
    site.session("team/token")
    for words in (["validate"], ["plan"], ["plan", "--offline"]):
        said = site.bai(*words)
        assert said.code == 0 and "not declared on this machine" in " ".join(said.text.split()), said.text
    assert site.bai("plan", "--out", str(site.folder / "plan.json")).code == 0
    for words in (["apply", "--yes"], ["apply", str(site.folder / "plan.json")], ["reconcile", "--once"]):
        said = site.bai(*words)
        assert said.code == 1 and "thief.yaml:1:" in said.text and "BAI-V057" in said.text, said.text


def test_a_plan_that_was_changed_gets_no_more(site: Site) -> None:
    """A saved plan is a file: what it names is judged again where values are read."""
    site.directory("token")
    (site.store / "token").write_text("granted")
    (site.store / "hidden").write_text(CANARY)
    site.session("team/token")
    path = site.folder / "plan.json"
    assert site.bai("plan", "--out", str(path)).code == 0
    for other in ("team/hidden", "team/../private", "env:WEBHOOK_SECRET", f"file:{site.folder}/private"):
        reader = SecretReader(_stores(site, "token"))
        with pytest.raises(SecretMissing) as caught:
            reader.for_project("demo", other)
        assert CANARY not in str(caught.value)


# Folders


def _stores(site: Site, *entries: str) -> DeclaredStores:
    document = store("team", projects=["demo"], entries=list(entries), directory={"path": str(site.store)})
    return DeclaredStores({"team": DeclaredStore(SecretStore.model_validate(document))})


def _link(path: Path) -> None:
    path.symlink_to("../private")


def _hard_link(path: Path) -> None:
    os.link(path.parent.parent / "private", path)


def _chain(path: Path) -> None:
    (path.parent / "between").symlink_to("../private")
    path.symlink_to("between")


def _through_proc(path: Path) -> None:
    path.symlink_to(f"/proc/self/root{path.parent.parent}/private")


def _device(path: Path) -> None:
    os.mknod(path, 0o20666, os.makedev(1, 5))


def _socket(path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _large(path: Path) -> None:
    path.write_text("x" * (64 * 1024 + 1))


@pytest.mark.parametrize(
    "plant",
    [_link, _hard_link, _chain, _through_proc, os.mkfifo, _socket, os.mkdir, _large,
     pytest.param(_device, marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root"))],
)  # fmt: skip
def test_what_is_planted_in_a_folder_of_secrets(site: Site, plant: Callable[[Path], None]) -> None:
    """Nothing outside of it is read, and nothing waits for a writer."""
    plant(site.store / "token")
    site.directory("*")
    site.session("team/token")
    said = site.bai("apply", "--yes")
    assert said.code == 1 and "BAI-E0504" in said.text and CANARY not in said.text, said.text
    assert not list((site.folder / "kernels").rglob("*output*"))


def test_a_folder_that_everybody_may_write_to(site: Site) -> None:
    (site.store / "token").write_text("x")
    site.store.chmod(0o777)
    with pytest.raises(SecretMissing, match="everybody may write"):
        SecretReader(_stores(site, "token")).for_project("demo", "team/token")


def test_patterns_reach_names_only(site: Site) -> None:
    (site.store / ".hidden").write_text(CANARY)
    (site.store / "hf-a").write_text("a")
    (site.store / "hg-a").write_text(CANARY)
    reader = SecretReader(_stores(site, "hf-*"))
    assert reader.for_project("demo", "team/hf-a") == "a"
    for name in (".hidden", "hg-a", "hf-a/../hg-a", "hf-*", "hf-[a]", "HF-a", "hf-a\n"):
        with pytest.raises(SecretMissing):
            reader.for_project("demo", f"team/{name}")
    with pytest.raises(SecretMissing):
        SecretReader(_stores(site, "*")).for_project("demo", "team/.hidden")


# SOPS


@pytest.fixture
def sealed(site: Site, sops: Sops) -> Sops:
    """A store of the repository whose file is there."""
    site.environment |= sops.environment
    document = store("vault", projects=["demo"], entries=["*"], sops={"file": "sealed/prod.yaml"})
    site.write("store", yaml.safe_dump(document))
    sops.encrypt(site.repository / "sealed" / "prod.yaml", {"token": "granted-77", "count": 5})
    site.session("vault/token")
    return sops


def test_a_sealed_file_of_the_repository(site: Site, sealed: Sops) -> None:
    assert "got granted-77" in site.got()
    site.session("vault/count", name="number")
    assert "no encrypted text 'count'" in site.bai("validate").text


def test_tags_in_what_is_sealed_are_only_text(site: Site, sealed: Sops) -> None:
    tag = f"!!python/object/apply:os.system ['touch {site.folder}/pwned']"
    sealed.encrypt(site.repository / "sealed" / "prod.yaml", {"token": tag})
    assert tag in site.got()
    assert not (site.folder / "pwned").exists()


@pytest.mark.parametrize(
    ("where", "link"),
    [
        ("../outside.yaml", False),
        ("/etc/passwd", False),
        ("linked.yaml", True),
        ("sealed/folder/outside.json", True),
    ],
)
def test_a_sealed_file_lies_in_the_repository(site: Site, sealed: Sops, where: str, link: bool) -> None:
    outside = site.folder / "elsewhere"
    sealed.encrypt(outside / "outside.yaml", {"token": CANARY})
    sealed.encrypt(outside / "outside.json", {"token": CANARY})
    if where.startswith("linked"):
        (site.repository / where).symlink_to(outside / "outside.yaml")
    elif link:
        (site.repository / "sealed" / "folder").symlink_to(outside)
    document = store("vault", projects=["demo"], entries=["*"], sops={"file": where})
    site.write("store", yaml.safe_dump(document))
    said = [site.bai("validate"), site.bai("apply", "--yes")]
    for each in said:
        assert each.code == 1 and CANARY not in each.text, each.text


@pytest.mark.parametrize("change", ["swapped", "clear", "by hand", "clear with a tag"])
def test_a_sealed_file_that_was_changed_by_hand(site: Site, sealed: Sops, change: str) -> None:
    path = site.repository / "sealed" / "prod.yaml"
    sealed.encrypt(path, {"token": "granted-77", "other": CANARY})
    found = yaml.safe_load(path.read_text())
    if change == "swapped":
        found["token"] = found["other"]
    elif change == "clear":
        found["token"] = "in clear"
    elif change == "by hand":
        found["more"] = "x"
    path.write_text(yaml.safe_dump(found))
    if change == "clear with a tag":
        text = re.sub(r"token: .*", "token: !!python/name:os.system", path.read_text())
        path.write_text(text)
    said = site.bai("apply", "--yes")
    assert said.code == 1 and CANARY not in said.text, said.text


@pytest.mark.parametrize(
    "keys",
    [
        {"hc_vault": [{"vault_address": "http://127.0.0.1:{port}", "engine_path": "t", "key_name": "k"}]},
        {"key_groups": [{"hc_vault": [{"vault_address": "http://127.0.0.1:{port}", "engine_path": "t"}]}]},
        {"gcp_kms": [{"resource_id": "x", "enc": "x"}]},
        {"pgp": [{"fp": "x", "enc": "x"}]},
        {"kms": [{"arn": "arn:aws:kms:x", "aws_profile": "x", "enc": "x"}]},
        {"new_kms": [{"url": "http://127.0.0.1:{port}"}]},
        {"age": []},
    ],
)
def test_a_sealed_file_sends_sops_to_no_server(site: Site, sealed: Sops, keys: dict[str, Any]) -> None:
    """With the owner's token for it, which sops would take along."""
    site.environment["VAULT_TOKEN"] = CANARY
    path = site.repository / "sealed" / "prod.yaml"
    found = yaml.safe_load(path.read_text())
    found["sops"] |= keys
    path.write_text(yaml.safe_dump(found))
    assert "store.yaml:" in site.refused("BAI-V058")


def test_a_second_meaning_of_a_sealed_file_is_refused(site: Site, sealed: Sops) -> None:
    """Where two readers of YAML could differ, sops is not asked: keys that stand twice or are merged."""
    path = site.repository / "sealed" / "prod.yaml"
    text = path.read_text()
    for more in ("\nsops: {hc_vault: [{vault_address: 'http://x'}]}\n", "\n<<: {a: b}\n", "\n---\na: b\n"):
        path.write_text(text + more)
        site.refused("BAI-V058")


def test_a_document_does_not_choose_the_key(site: Site, sealed: Sops) -> None:
    key, recipient = sealed.identity("owners.txt")
    sealed.encrypt(site.repository / "sealed" / "prod.yaml", {"token": CANARY}, recipient=recipient)
    spec = {"file": "sealed/prod.yaml", "keyFile": str(key)}
    site.write("store", yaml.safe_dump(store("vault", projects=["demo"], entries=["*"], sops=spec)))
    assert "which key decrypts is not for documents" in site.refused("BAI-V056")
    site.write(
        "store", yaml.safe_dump(store("vault", projects=["demo"], entries=["*"], sops={"file": spec["file"]}))
    )
    said = site.bai("apply", "--yes")
    assert said.code == 1 and "no identity in the file of age keys" in said.text and CANARY not in said.text


def test_the_owner_keeps_a_key_for_a_store_of_his_own(site: Site, sops: Sops) -> None:
    site.environment |= {"PATH": sops.environment["PATH"]}
    sops.encrypt(site.repository / "sealed.yaml", {"token": "granted-12"})
    spec = {"file": "sealed.yaml", "keyFile": str(sops.keys)}
    site.declare(store("vault", projects=["demo"], entries=["token"], sops=spec))
    site.session("vault/token")
    assert "got granted-12" in site.got()


def test_sops_sees_nothing_of_the_environment(site: Site, sealed: Sops) -> None:
    """A program in its place writes down what it is given."""
    tools = site.folder / "tools"
    tools.mkdir()
    (tools / "sops").write_text(
        f'#!/bin/sh\nenv > {site.folder}/seen; echo "$@" >> {site.folder}/seen; exit 1\n'
    )
    (tools / "sops").chmod(0o755)
    site.environment |= {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "VAULT_TOKEN": CANARY,
        "AWS_PROFILE": CANARY,
    }
    assert site.bai("apply", "--yes").code == 1
    seen = (site.folder / "seen").read_text()
    assert CANARY not in seen and "SOPS_AGE_KEY_FILE" in seen and "/dev/stdin" in seen
