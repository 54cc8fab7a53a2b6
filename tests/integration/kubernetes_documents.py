"""A cluster of the Kubernetes lab's, as documents."""

from __future__ import annotations

from collections.abc import Sequence

_CLUSTER = """apiVersion: bai/v1
kind: Cluster
metadata: {{name: lab}}
spec: {{provider: kubernetes, kubernetes: {{namespace: {namespace}{options}}}}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: all}}
spec: {{queue: fifo, selection: dispersed, allowRoot: true}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: p}}
spec: {{{project}}}
"""
_NODE = """---
apiVersion: bai/v1
kind: Node
metadata: {{name: {name}}}
spec: {{resourceGroup: all}}
"""


def cluster_documents(
    namespace: str, nodes: Sequence[str] = ("n0", "n1"), *, options: str = "", project: str = ""
) -> str:
    """`options`: further ones of `kubernetes`; `project`: spec of the project p; both in one line."""
    further = f", {options}" if options else ""
    head = _CLUSTER.format(namespace=namespace, options=further, project=project)
    return head + "".join(_NODE.format(name=name) for name in nodes)
