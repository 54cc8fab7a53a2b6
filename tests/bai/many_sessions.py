"""The DGX example with five hundred sessions: whole GPUs, gangs, fractions, several projects and groups, and
some that wait for reasons of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "clusters" / "dgx-h100"
_MORE = """\
apiVersion: bai/v1
kind: Project
metadata: {name: speech}
spec: {domain: research}
---
apiVersion: bai/v1
kind: Quota
metadata: {name: speech-gpus}
spec:
  subject: {project: speech}
  total: {cuda.device: 16}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: shared}
spec:
  fractional: {sharesPerDevice: 1}
---
apiVersion: bai/v1
kind: NodePool
metadata: {name: shared}
spec:
  resourceGroup: shared
  hardwareFrom: hardware/dgx-h100.json
  namePattern: shared-[01-02]
  addressPattern: shared-[01-02].cluster.example
"""


def session(name: str, project: str, resources: str, *more: str, group: str = "h100") -> str:
    """One document; `more` are further lines of its `spec`."""
    lines = [
        "---",
        "apiVersion: bai/v1",
        "kind: Session",
        f"metadata: {{name: {name}, project: {project}}}",
        "spec:",
        "  type: batch",
        f"  resourceGroup: {group}",
        f"  resources: {{{resources}}}",
        "  command: [python, run.py]",
    ]
    return "\n".join([*lines, *(f"  {line}" for line in more)]) + "\n"


def make_many_sessions(folder: Path) -> Path:
    """The documents of a cluster, with those of the example; 500 sessions in all."""
    shutil.copytree(EXAMPLE, folder)
    own = folder / "sessions.yaml"
    named = own.read_text(encoding="utf-8").replace("spec:\n", "spec:\n  resourceGroup: h100\n")
    own.write_text(named, encoding="utf-8")
    one, eight = "cpu: 4, memory: 32GiB, cuda.device: 1", "cpu: 32, memory: 256GiB, cuda.device: 8"
    part, huge = "cpu: 2, memory: 8GiB, cuda.shares: 0.25", "cpu: 4, memory: 9TiB, cuda.device: 1"
    gang = "cluster: {mode: multi-node, roles: {main: 1, sub: 3}}"
    later = "startsAt: 2126-01-01T00:00:00Z"
    documents = [
        _MORE,
        *(session(f"trial-{at:03}", "language", one) for at in range(1, 276)),
        *(session(f"whole-{at:03}", "language", eight) for at in range(1, 61)),
        *(session(f"gang-{at:02}", "language", eight, gang, "priority: 30") for at in range(1, 4)),
        *(session(f"gang-{at:02}", "language", eight, gang) for at in range(4, 21)),
        *(session(f"asr-{at:02}", "speech", one, "priority: 20") for at in range(1, 41)),
        *(
            session(f"after-{at}", "language", one, "dependsOn: [Session/language/pretrain]")
            for at in range(1, 7)
        ),
        *(session(f"part-{at:02}", "language", part, group="shared") for at in range(1, 81)),
        *(session(f"later-{at}", "language", one, later) for at in range(1, 10)),
        *(session(f"huge-{at}", "language", huge) for at in range(1, 5)),
    ]
    (folder / "many.yaml").write_text("".join(documents), encoding="utf-8")
    return folder
