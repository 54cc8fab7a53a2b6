"""A cluster that is there already: its pods become sessions, and everything else stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bai.cli.imports import adopt
from schemas.problems.errors.provider import ProviderUnavailable
from tests.bai.conftest import Repo
from tests.lab.docker import IMAGE
from tests.lab.kubernetes.api import CORE, RESOURCE
from tests.lab.kubernetes.gpus import DRIVER, gpu_uuid
from tests.lab.kubernetes.lab import Kubernetes
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes-sessions"), pytest.mark.slow]
SERVES = "echo hello from $(hostname); echo gpus $NVIDIA_VISIBLE_DEVICES; exec sleep 1000"


@pytest.fixture
def repo(kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path) -> Iterator[Repo]:
    """An empty folder; in the end nothing runs for it."""
    (tmp_path / "repository").mkdir()
    environment = {"KUBECONFIG": str(kubernetes.kubeconfig), "COLUMNS": "200", "NO_COLOR": "1"}
    found = Repo(tmp_path / "repository", {"XDG_STATE_HOME": str(tmp_path / "state"), **environment})
    yield found
    if (found.root / "cluster.yaml").exists():
        found.ok("destroy", "--yes")


def plain(name: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "app", "image": IMAGE, "command": ["sh", "-c", SERVES],
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "32Mi"}},
        "env": [{"name": "EPOCHS", "value": "1e3"}],
    }  # fmt: skip
    return {
        "metadata": {"name": name, "labels": {"team": "blue"}},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec,
        },
    }  # fmt: skip


def with_gpus(lab: Kubernetes, namespace: str, name: str, count: int) -> dict[str, Any]:
    """A pod whose claim is made from a template, and placed by the cluster's own scheduler."""
    request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": count}}
    template = {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    lab.api.create(f"{RESOURCE}/namespaces/{namespace}/resourceclaimtemplates", template)
    pod = plain(name, resourceClaims=[{"name": "gpus", "resourceClaimTemplateName": name}])
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpus"}]
    return pod


def job(name: str) -> dict[str, Any]:
    template = {"spec": plain(name)["spec"]}
    return {"metadata": {"name": name}, "spec": {"template": template}}


def with_claim(lab: Kubernetes, namespace: str, name: str, secret: str) -> dict[str, Any]:
    """A pod with a claim that somebody has made for it by name, and a variable of somebody's secret."""
    request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": 1}}
    claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    lab.api.create(f"{RESOURCE}/namespaces/{namespace}/resourceclaims", claim)
    body = {"metadata": {"name": secret}, "stringData": {"password": "hush-hush"}}
    lab.api.create(f"{CORE}/namespaces/{namespace}/secrets", body)
    claims = [{"name": "gpus", "resourceClaimName": name}]
    pod = plain(name, resourceClaims=claims, restartPolicy="Always")
    container = pod["spec"]["containers"][0]
    container["resources"]["claims"] = [{"name": "gpus"}]
    reference = {"secretKeyRef": {"name": secret, "key": "password"}}
    container["env"].append({"name": "DB_PASSWORD", "valueFrom": reference})
    return pod


def taken(lab: Kubernetes, namespace: str, claim: str) -> set[str]:
    """UUIDs of a claim's GPUs."""
    found = lab.api.get(f"{RESOURCE}/namespaces/{namespace}/resourceclaims/{claim}")
    results = found["status"]["allocation"]["devices"]["results"]
    return {gpu_uuid(one["pool"], int(one["device"].removeprefix("gpu-"))) for one in results}


def spec_of(pod: dict[str, Any]) -> tuple[Any, ...]:
    """What adopting must not change."""
    about = pod["metadata"]
    return pod["spec"], about["uid"], about.get("ownerReferences"), about["generation"]


def said(repo: Repo, session: str, script: str) -> str:
    return repo.process("exec", session, "--", "sh", "-c", script).out


def test_pods_become_sessions_and_end_as_sessions_do(
    repo: Repo, kubernetes: Kubernetes, kube_namespace: str
) -> None:
    kubernetes.pair()
    api, here = kubernetes.api, f"{CORE}/namespaces/{kube_namespace}"
    before = {"web.one": kubernetes.pod(kube_namespace, plain("web.one"))}
    before["train"] = kubernetes.pod(kube_namespace, with_gpus(kubernetes, kube_namespace, "train", 2))
    before["own"] = kubernetes.pod(kube_namespace, with_claim(kubernetes, kube_namespace, "own", "db"))
    api.create(f"/apis/batch/v1/namespaces/{kube_namespace}/jobs", job("nightly"))
    selector = "labelSelector=job-name=nightly"
    (nightly,) = until(lambda: api.get(f"{here}/pods?{selector}")["items"], "the job has made its pod")
    nightly = kubernetes.begun(kube_namespace, nightly["metadata"]["name"])
    words = ("import", "kubernetes", "--namespace", kube_namespace)

    told = repo.ok(*words, "--secrets-from", "vault").out
    names = ", ".join(f"{kube_namespace}/{name}" for name in ("own", "train", "web.one"))
    assert f"could be adopted (--adopt): {names}\n" in told
    assert not (repo.root / "sessions").exists()
    assert api.get(f"{here}/pods/train")["metadata"]["labels"] == {"team": "blue"}
    refused = repo(*words, "--secrets-from", "vault", "--adopt")
    assert refused.code == 1 and "nobody can be asked" in refused.err
    assert not (repo.root / "sessions").exists()

    told = repo.ok(*words, "--secrets-from", "vault", "--adopt", "--yes").out
    assert "Job nightly owns it and would make it again" in told
    assert told.endswith("Adopted 3 sessions.\n")
    assert "No changes." in repo.ok("plan").out
    found = {
        one["id"].rpartition("/")[2]: one for one in repo.ok("get", "sessions", "-o", "json").json["items"]
    }
    assert {name: one["phase"] for name, one in found.items()} == dict.fromkeys(
        (*(each for each in found if each.startswith("web-one-")), "train", "own"), "RUNNING"
    )
    (web,) = (name for name in found if name.startswith("web-one-"))
    for name, pod in before.items():
        assert spec_of(api.get(f"{here}/pods/{name}")) == spec_of(pod)
    now = api.get(f"{here}/pods/{nightly['metadata']['name']}")
    assert now["metadata"]["labels"] == nightly["metadata"]["labels"]
    texts = "".join(path.read_text() for path in (repo.root / "sessions").rglob("*.yaml"))
    assert "vault/db.password" in texts and "hush-hush" not in texts

    generated = before["train"]["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    held = taken(kubernetes, kube_namespace, generated) | taken(kubernetes, kube_namespace, "own")
    shown = repo.ok("describe", "train").out
    assert all(uuid in shown for uuid in taken(kubernetes, kube_namespace, generated))
    until(lambda: "gpus" in kubernetes.log(kube_namespace, "web.one"), "it has spoken")
    assert repo.ok("logs", web).out == kubernetes.log(kube_namespace, "web.one") != ""
    assert said(repo, "train", "echo $EPOCHS") == "1e3\n"
    again = repo.ok(*words, "--secrets-from", "vault", "--adopt", "--yes").out
    assert again.endswith("Adopted 3 sessions.\n") and "No changes." in repo.ok("plan").out

    for path in (repo.root / "sessions" / kube_namespace).iterdir():
        path.unlink()
    repo.ok("apply", "--yes")
    left = api.get(f"{here}/pods")["items"]
    assert [one["metadata"]["name"] for one in left] == [nightly["metadata"]["name"]]
    claims = api.get(f"{RESOURCE}/namespaces/{kube_namespace}/resourceclaims")["items"]
    assert [one["metadata"]["name"] for one in claims] == ["own"]
    assert not claims[0].get("status", {}).get("allocation")
    assert api.get(f"{here}/secrets/db")["data"]
    assert len(held) == 3


def test_what_runs_is_kept_by_a_lost_store_and_changed_by_its_document(
    repo: Repo, kubernetes: Kubernetes, kube_namespace: str
) -> None:
    kubernetes.pair()
    kubernetes.pod(kube_namespace, with_gpus(kubernetes, kube_namespace, "train", 1))
    repo.ok("import", "kubernetes", "--namespace", kube_namespace, "--adopt", "--yes")
    for path in (repo.root / ".bai").iterdir():
        path.unlink()
    repo.ok("state", "rebuild")
    repo.ok("apply", "--yes")
    path = f"{CORE}/namespaces/{kube_namespace}/pods/train"
    uid = kubernetes.api.get(path)["metadata"]["uid"]
    session = repo.root / "sessions" / kube_namespace / "train.yaml"
    text = session.read_text()
    session.write_text(f"{text}  priority: 20\n")
    repo.ok("apply", "--yes")  # In place: the pod stays.
    assert kubernetes.api.get(path)["metadata"]["uid"] == uid
    assert "No changes." in repo.ok("plan").out
    session.write_text(text.replace('"1e3"', '"2"'))
    repo.ok("apply", "--yes")  # Made anew, by bai.
    assert kubernetes.api.find(path) is None
    until(lambda: said(repo, "train", "echo $EPOCHS") == "2\n", "it runs anew")


def test_who_is_adopted_is_nobody_elses_any_more(
    repo: Repo, kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path
) -> None:
    kubernetes.pair()
    kubernetes.pod(kube_namespace, plain("web"))
    words = ("import", "kubernetes", "--namespace", kube_namespace, "--adopt", "--yes")
    repo.ok(*words)
    (tmp_path / "other").mkdir()
    other = Repo(tmp_path / "other", repo.env)
    assert "it carries labels of bai's already" in other.ok(*words).out
    assert "Session/" not in other.ok("plan").out
    (other.root / "nodes.yaml").write_text("# mine\n")
    refused = other(*words)
    assert refused.code == 1 and "nodes.yaml is already there and is not overwritten" in refused.err
    assert (other.root / "nodes.yaml").read_text() == "# mine\n"


def test_an_import_that_is_cut_off_goes_on(
    repo: Repo, kubernetes: Kubernetes, kube_namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the first label, with an answer that was lost, and killed before the records."""
    kubernetes.pair()
    for name in ("one", "two"):
        kubernetes.pod(kube_namespace, plain(name))
    words = ("import", "kubernetes", "--namespace", kube_namespace, "--adopt", "--yes")
    really = adopt.adopt_pod

    def killed(*given: Any) -> None:
        raise KeyboardInterrupt

    def unheard(client: Any, pod: Any, *given: Any) -> None:
        really(client, pod, *given)
        if pod.name == "one":
            raise ProviderUnavailable(provider="kubernetes", why="the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(adopt, "adopt_pod", killed)
        assert repo(*words).code != 0
    with monkeypatch.context() as patch:
        patch.setattr(adopt, "adopt_pod", unheard)
        done = repo(*words)
        assert done.code == 1 and "run the same command again" in done.out, done
    with monkeypatch.context() as patch:
        patch.setattr(adopt, "record", killed)
        assert repo(*words).code != 0
    assert repo.ok(*words).out.endswith("Adopted 2 sessions.\n")
    assert "No changes." in repo.ok("plan").out
    pods = kubernetes.api.get(f"{CORE}/namespaces/{kube_namespace}/pods")["items"]
    assert sorted(one["metadata"]["name"] for one in pods) == ["one", "two"]


SEES = [
    {"apiGroups": [""], "resources": ["nodes", "namespaces", "resourcequotas", "pods"], "verbs": ["list"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices", "resourceclaims"], "verbs": ["list"]},
]
ADOPTS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]}]


def test_who_imports_needs_the_rights_that_the_page_names(
    repo: Repo, kubernetes: Kubernetes, kube_namespace: str
) -> None:
    kubernetes.pair()
    kubernetes.pod(kube_namespace, plain("web"))
    path = f"{CORE}/namespaces/{kube_namespace}/resourcequotas"
    kubernetes.api.create(path, {"metadata": {"name": "all"}, "spec": {"hard": {"requests.cpu": "40"}}})
    words = ("import", "kubernetes", "--namespace", kube_namespace, "--adopt", "--yes")
    admin = repo.env["KUBECONFIG"]
    for name, inside, everywhere, wanted in (
        ("half", ADOPTS, [SEES[1]], "forbidden"),
        ("looks", [], SEES, "cannot get resource"),
        ("adopts", ADOPTS, SEES, ""),
    ):
        repo.env["KUBECONFIG"] = str(kubernetes.account(kube_namespace, name, inside, everywhere))
        done = repo(*words)
        assert wanted in done.err and done.code == int(bool(wanted)), done.out + done.err
        assert (repo.root / "cluster.yaml").exists() == (name != "half")
        assert (repo.root / f"sessions/{kube_namespace}/web.yaml").exists() == (name == "adopts")
    repo.env["KUBECONFIG"] = admin
    assert "No changes." in repo.ok("plan").out
    assert f"Quota/{kube_namespace}-all" in repo.ok("get", "quotas", "-o", "json").out
