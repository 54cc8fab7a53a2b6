"""What the provider is handed: names, folders, defaults, environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from providers.base import Mount
from reconciler.sources.desired import make_desired
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from reconciler.values.plan import Plan
from schemas.loading.loader import load_directory
from tests.reconciler.lab import BASE, Lab, action, session


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


STORAGE = """
apiVersion: bai/v1
kind: StorageHost
metadata: {name: disk}
spec: {root: /srv/data/}
---
apiVersion: bai/v1
kind: Volume
metadata: {name: set, project: p}
spec: {}
---
apiVersion: bai/v1
kind: Volume
metadata: {name: common}
spec: {path: shared/common}
"""


def specs(plan: Plan, name: str = "a"):  # type: ignore[no-untyped-def]
    after = action(plan, f"Session/p/{name}").after
    assert after is not None
    return after.specs


def test_volumes_are_folders_under_their_hosts_root(lab: Lab) -> None:
    mounts = "mounts: [{volume: set, path: /data, readOnly: true}, {volume: common, path: /c}]"
    lab.write({"storage": STORAGE, "a": session("a", mounts)})
    (spec,) = specs(lab.plan())
    assert [(mount.source, mount.target, mount.read_only) for mount in spec.mounts] == [
        ("/srv/data/p/set", "/data", True),
        ("/srv/data/shared/common", "/c", False),
    ]
    assert all(
        isinstance(mount, Mount) and spec.mounts[0].root.startswith("/srv/data") for mount in spec.mounts
    )


def test_sessions_run_as_their_projects_user_and_join_the_groups_of_their_volumes(lab: Lab) -> None:
    volume = "---\napiVersion: bai/v1\nkind: Volume\nmetadata: {name: %s}\nspec: {gid: %d}\n"
    groups = (volume % ("people", 4343)) + (volume % ("system", 6))
    mounts = ", ".join(
        f"{{volume: {name}, path: /{name}1}}" for name in ("set", "common", "people", "system")
    )
    lab.write({"storage": STORAGE + groups, "a": session("a", f"mounts: [{mounts}]")})
    (spec,) = specs(lab.plan())
    assert spec.uid == lab.desired().repository.uid_of(lab.desired().cluster, "p")
    assert spec.groups == (4343, spec.uid)


def test_containers_learn_which_numbers_are_other_projects(lab: Lab) -> None:
    """Those that an image could have; projects without a number of their own have larger ones."""
    others = "---".join(
        f"\napiVersion: bai/v1\nkind: Project\nmetadata: {{name: {name}}}\nspec: {{uid: {uid}}}\n"
        for name, uid in (("q", 4200), ("r", 4201), ("t", 70000))
    )
    volume = "---\napiVersion: bai/v1\nkind: Volume\nmetadata: {name: w, project: q}\nspec: {uid: 5000}\n"
    lab.write({"q": others, "storage": STORAGE + volume, "a": session("a", "image: 'debian:12'")})
    lab.write({"b": session("b")})
    plan = lab.plan()
    assert specs(plan)[0].others == "4200-4201,5000"
    assert specs(plan, "b")[0].others == ""
    assert load_plan(dump_plan(plan)) == plan


def test_ids_are_short_safe_and_never_shared(lab: Lab) -> None:
    long = "a" * 60
    lab.write({"a": session(long), "b": session("b", "cluster: {roles: {main: 1, sub: 2}}")})
    plan = lab.plan()
    ids = [spec.id for each in plan.actions if each.session_after for spec in each.session_after.specs]
    assert len(set(ids)) == 4 and all(len(each) <= 63 and each == each.lower() for each in ids)


def test_a_cluster_defaults_are_part_of_the_session(lab: Lab) -> None:
    defaults = "defaults: {env: {A: cluster, B: cluster}, image: 'debian:12'}"
    lab.write(
        {
            "base": BASE.replace("{provider: fake}", f"{{provider: fake, {defaults}}}"),
            "a": session("a", "env: {B: own}"),
        }
    )
    (spec,) = specs(lab.plan())
    assert (spec.env["A"], spec.env["B"], spec.image) == ("cluster", "own", "debian:12")
    assert not lab.converge().changes
    lab.write({"base": BASE.replace("{provider: fake}", "{provider: fake, defaults: {env: {A: other}}}")})
    found = action(lab.plan(), "Session/p/a")
    assert found.verb == "replace"
    assert {change.path for change in found.changes} == {"spec.env.A", "spec.image"}


def test_native_processes_are_reached_at_their_nodes_address(lab: Lab) -> None:
    nodes = (lab.folder / "nodes.yaml").read_text()
    lab.write(
        {
            "base": BASE.replace("provider: fake", "provider: process"),
            "a": session("a", "cluster: {roles: {main: 1, sub: 1}}"),
        }
    )
    for address, reached in (("localhost", "127.0.0.1"), ("10.1.2.3", "10.1.2.3")):
        lab.write({"nodes": nodes.replace("resourceGroup:", f"address: {address}\n  resourceGroup:")})
        assert specs(lab.plan())[1].env["BAI_CLUSTER_ADDRESSES"] == f"main1={reached},sub1={reached}"
        assert specs(lab.plan())[1].env["MASTER_ADDR"] == reached


def test_limits_reach_the_kernel(lab: Lab) -> None:
    lab.write(
        {
            "a": session(
                "a",
                "resources: {cpu: 2, memory: 1GiB, shm: 64MiB, pids: 50, cuda.device: 1}, "
                "timeout: 1h, stop: {signal: SIGINT, grace: 5s}",
            )
        }
    )
    (spec,) = specs(lab.plan())
    assert (len(spec.cpus), spec.cpu_milli, spec.memory, spec.shm, spec.pids) == (2, 0, 1 << 30, 64 << 20, 50)
    assert (spec.timeout, spec.stop_signal, spec.stop_grace) == (3600.0, "SIGINT", 5.0)
    assert spec.devices == tuple(grant for grant in spec.env["CUDA_VISIBLE_DEVICES"].split(","))
    assert spec.labels.document == "" and spec.secret_env == {}


def test_how_containers_differ_from_the_default_reaches_the_kernel(lab: Lab) -> None:
    more = "capabilities: [SYS_PTRACE], ulimits: {nofile: 10, core: unlimited}"
    rules = f"{{user: '1000:1100', readOnlyRoot: true, {more}}}"
    lab.write({"a": session("a", f"container: {rules}"), "b": session("b", "")})
    plan = load_plan(dump_plan(lab.plan()))
    (spec,) = specs(plan)
    assert (spec.user, spec.read_only_root, spec.capabilities) == ("1000:1100", True, ("SYS_PTRACE",))
    assert spec.ulimits == {"nofile": (10, 10), "core": (-1, -1)}
    (plain,) = specs(plan, "b")
    assert (plain.user, plain.read_only_root, plain.capabilities, plain.ulimits) == ("", False, (), {})


def test_the_tree_digest_is_about_meaning(lab: Lab) -> None:
    lab.write({"a": session("a", "resources: {memory: 1GiB}")})
    first = lab.desired().tree
    lab.drop("a")
    lab.write({"elsewhere": session("a", "resources: {memory: 1024MiB}, priority: 10")})
    assert lab.desired().tree == first
    lab.write({"elsewhere": session("a", "resources: {memory: 2GiB}")})
    assert lab.desired().tree != first


def test_only_the_clusters_own_documents_count(lab: Lab) -> None:
    base = BASE.replace(
        "metadata: {name: default}\nspec: {}", "metadata: {name: default}\nspec: {cluster: here}"
    )
    other = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: there}
spec: {provider: fake}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: far}
spec: {cluster: there}
"""
    nodes = (
        (lab.folder / "nodes.yaml")
        .read_text()
        .replace("resourceGroup: default", "cluster: here\n  resourceGroup: default")
    )
    lab.write(
        {
            "base": base,
            "other": other,
            "nodes": nodes,
            "a": session("a", "resourceGroup: default"),
            "b": session("b", "resourceGroup: far"),
        }
    )
    repository = load_directory(lab.folder)
    here = make_desired(repository, "here", repo="r", commit="")
    there = make_desired(repository, "there", repo="r", commit="")
    assert "Session/p/a" in here.sessions() and "Session/p/b" not in here.sessions()
    assert set(there.sessions()) == {"Session/p/b"}
    assert [node.name for node in here.nodes] == ["n1"] and not there.nodes


SWITCHED = """
apiVersion: bai/v1
kind: Node
metadata: {name: switched}
spec:
  resourceGroup: fast
  hardware:
    numaNodes: [{id: 0, cpus: 0-7, memory: 34359738368}]
    gpus:
      - {id: GPU-a, index: 0, pci: "0000:31:00.0", numaNode: 0, pciePath: ["0000:10:00.0"]}
      - {id: GPU-b, index: 1, pci: "0000:32:00.0", numaNode: 0, pciePath: ["0000:10:00.0"]}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: fast}
spec: {}
"""


@pytest.mark.parametrize(
    ("own", "given"),
    [
        ("", True),
        ("env: {NCCL_TOPO_FILE: /my/own.xml}", False),
        ("secrets: [{env: NCCL_TOPO_FILE, from: 'env/HOME'}]", False),
    ],
)
def test_gpus_that_talk_are_given_their_topology(lab: Lab, own: str, given: bool) -> None:
    wanted = "resourceGroup: fast, resources: {cpu: 2, memory: 1GiB, cuda.device: 2}"
    lab.write({"switched": SWITCHED, "a": session("a", f"{wanted}, {own}" if own else wanted)})
    plan = lab.plan()
    (spec,) = specs(plan)
    assert [(file.name, file.variable) for file in spec.files] == (
        [("nccl-topology.xml", "NCCL_TOPO_FILE")] if given else []
    )
    assert all('busid="0000:31:00.0"' in file.content for file in spec.files)
    assert specs(load_plan(dump_plan(plan))) == specs(plan)
    assert not lab.converge().changes


DIRECT = SWITCHED.replace("spec: {}", "spec: {gpuDirectStorage: true}").replace(
    "    gpus:", "    nics: [{id: mlx5_0, numaNode: 0, addresses: [10.0.0.1]}]\n    gpus:"
)


@pytest.mark.parametrize(
    ("nodes", "own", "given"),
    [
        (DIRECT, "", True),
        (DIRECT, "env: {CUFILE_ENV_PATH_JSON: /my/own.json}", False),
        (DIRECT.replace(", addresses: [10.0.0.1]", ""), "", False),
        (DIRECT.replace("gpuDirectStorage: true", ""), "", False),
    ],
)
def test_storage_that_reads_into_gpus_is_told_the_addresses(
    lab: Lab, nodes: str, own: str, given: bool
) -> None:
    wanted = "resourceGroup: fast, resources: {cpu: 2, memory: 1GiB, cuda.device: 1}"
    lab.write({"switched": nodes, "a": session("a", f"{wanted}, {own}" if own else wanted)})
    (spec,) = specs(lab.plan())
    files = {file.variable: file.content for file in spec.files}
    assert ("CUFILE_ENV_PATH_JSON" in files) == given
    assert not given or "10.0.0.1" in files["CUFILE_ENV_PATH_JSON"]
