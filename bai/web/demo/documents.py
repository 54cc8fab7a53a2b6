"""The documents of the demo: those of examples/clusters/dgx-h100, and how people go on from there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bai.web.demo.demo_repository import Person

OPERATOR = Person("lena", "Lena Operations")
PEOPLE = (
    Person("mina", "Mina Park", "language"),
    Person("aisha", "Aisha Diallo", "language"),
    Person("jonas", "Jonas Weber", "vision"),
    Person("yuki", "Yuki Tanaka", "vision"),
    Person("tomas", "Tomás Novák", "robotics"),
)
DRAINED = ("dgx-12", "dgx-07", "dgx-15", "dgx-03")
"""Nodes whose turn for maintenance comes, one after another."""
_IN_WHEEL = Path(__file__).parent / "dgx-h100"
_IN_CHECKOUT = Path(__file__).resolve().parents[3] / "examples" / "clusters" / "dgx-h100"
_CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: dgx}
spec:
  provider: declared
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: h100}
spec:
  queue: fifo
  queueOptions: {backfill: true}
  selection: concentrated
  numa: prefer-single-node
"""
_NODES = """\
---
apiVersion: bai/v1
kind: NodePool
metadata: {{name: rack-{rack}}}
spec:
  {common}
  labels: {{rack: {rack}}}
  namePattern: dgx-[{first}-{last}]
  addressPattern: dgx-[{first}-{last}].cluster.example
  exclude: [{exclude}]
"""
_DRAINED = """\
---
# {why}
apiVersion: bai/v1
kind: Node
metadata: {{name: {name}}}
spec:
  {common}
  labels: {{rack: {rack}}}
  address: {name}.cluster.example
  state: drained
"""
_COMMON = """resourceGroup: h100
  reserved: {cpus: "0-1,56-57,112-113,168-169", memory: 64GiB}
  hardwareFrom: hardware/dgx-h100.json"""
_PROJECT = """\
---
apiVersion: bai/v1
kind: Project
metadata: {{name: {name}}}
spec: {{domain: research, description: "{description}"}}
"""
_USER = """\
---
apiVersion: bai/v1
kind: User
metadata: {{name: {name}}}
spec: {{fullName: "{full_name}", email: {email}, projects: [{projects}]}}
"""
_QUOTA = """\
---
apiVersion: bai/v1
kind: Quota
metadata: {{name: {name}-gpus}}
spec:
  subject: {{project: {name}}}
  total: {{cuda.device: {total}}}
  cohort: research
  borrowing: {{cuda.device: {borrowing}}}
"""
_DESCRIPTIONS = {
    "vision": "Segmentation and depth from video",
    "language": "Language models, and how they are judged",
    "robotics": "Policies for arms and legs",
}
PROJECTS = tuple(_DESCRIPTIONS)
_LARGE = """\
apiVersion: bai/v1
kind: Session
metadata: {name: detector-xl, project: vision}
spec:
  type: batch
  owner: jonas
  resources: {cpu: 96, memory: 1024GiB, cuda.device: 8}
  cluster: {mode: multi-node, roles: {main: 1, sub: 1}}
  command: [torchrun, --nnodes=2, --nproc-per-node=8, detector.py, --size=xl]
  timeout: 12h
  priority: 15
"""


def example_files() -> Mapping[str, str]:
    """The example as it is, by path."""
    folder = _IN_WHEEL if _IN_WHEEL.is_dir() else _IN_CHECKOUT
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def cluster_document(drained: str = "", why: str = "") -> str:
    """Two racks, and the node that is looked after."""
    made = [_CLUSTER]
    for rack, first, last in (("a", "01", "08"), ("b", "09", "16")):
        names = {f"dgx-{number:02}" for number in range(int(first), int(last) + 1)}
        exclude = drained if drained in names else ""
        made.append(_NODES.format(rack=rack, first=first, last=last, exclude=exclude, common=_COMMON))
        if exclude:
            made.append(_DRAINED.format(name=drained, rack=rack, why=why, common=_COMMON))
    return "".join(made)


def tenancy_document(*projects: str, vision: int = 24) -> str:
    """Projects, people, and quotas that lend each other what they do not use."""
    made = ["apiVersion: bai/v1\nkind: Domain\nmetadata: {name: research}\nspec: {}\n"]
    made += [_PROJECT.format(name=name, description=_DESCRIPTIONS[name]) for name in projects]
    for one in (*(each for each in PEOPLE if each.project in projects), OPERATOR):
        own = "vision, language" if one.name == "mina" else one.project
        made.append(_USER.format(name=one.name, full_name=one.full_name, email=one.email, projects=own))
    quotas = {"vision": (vision, 16), "language": (80, 8), "robotics": (16, 8)}
    made += [_QUOTA.format(name=name, total=quotas[name][0], borrowing=quotas[name][1]) for name in projects]
    return "".join(made)


def larger_vision() -> Mapping[str, str]:
    """What a branch proposes."""
    return {
        "tenancy.yaml": tenancy_document(*PROJECTS, vision=40),
        "sessions/vision/detector-xl.yaml": _LARGE,
    }
