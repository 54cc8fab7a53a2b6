"""A folder of documents for the nodes of a Kubernetes lab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.lab.docker import IMAGE


class Repository:
    """`selection`: the strategy of its one resource group; empty: the default."""

    def __init__(self, folder: Path, namespace: str, nodes: Sequence[str], selection: str = "") -> None:
        self.folder, self.namespace = folder, namespace
        cluster = {
            "provider": "kubernetes",
            "kubernetes": {"namespace": namespace},
            "defaults": {"image": IMAGE},
        }
        group = {"selection": selection} if selection else {}
        self.write(
            "cluster",
            {"kind": "Cluster", "metadata": {"name": "bench"}, "spec": cluster},
            {"kind": "ResourceGroup", "metadata": {"name": "all"}, "spec": group},
            {"kind": "Project", "metadata": {"name": "p"}, "spec": {}},
            *({"kind": "Node", "metadata": {"name": name}, "spec": {}} for name in nodes),
        )

    def write(self, name: str, *documents: Mapping[str, Any]) -> None:
        """The documents of one file."""
        # Text of a document each: the dumper would make anchors of what several have in common.
        text = "---\n".join(yaml.safe_dump({"apiVersion": "bai/v1", **each}) for each in documents)
        (self.folder / f"{name}.yaml").write_text(text)

    def take_out(self, name: str) -> None:
        (self.folder / f"{name}.yaml").unlink()


def session(
    name: str, resources: Mapping[str, object], *, pods: int = 1, models: Sequence[str] = ()
) -> dict[str, Any]:
    """A session that sleeps, of so many containers, each with these resources on a node of its own."""
    spec: dict[str, Any] = {
        "command": ["sleep", "infinity"],
        "stop": {"grace": "0s"},
        "resources": dict(resources),
    }
    if pods > 1:
        spec["cluster"] = {"mode": "multi-node", "roles": {"main": 1, "sub": pods - 1}}
    if models:
        spec["placement"] = {"gpuModel": list(models)}
    return {"kind": "Session", "metadata": {"name": name, "project": "p"}, "spec": spec}
