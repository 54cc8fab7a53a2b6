"""Who a kernel belongs to, on its pod: everything as one annotation, which has no limit that matters, and a
few labels by which people and the API select. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from providers.base import Labels
from providers.kernel_names import kernel_id
from providers.kubernetes.objects.names import PREFIX
from schemas.values.resource_ref import ref_of

MANAGED = {"app.kubernetes.io/managed-by": "bai"}
LABELS = f"{PREFIX}labels"
"""The annotation with `Labels` as canonical JSON."""
STOPPED = f"{PREFIX}stopped"
"""The annotation that tells a pod that was ended from one whose time was up."""
SPENT = f"{PREFIX}exit-code"
"""The annotation of a pod that was restarted as often as it may be: how it ended for good."""
RESTARTS = f"{PREFIX}max-restarts"
"""The annotation with the most restarts, which the kubelet does not count."""
KERNEL = f"{PREFIX}kernel"
"""The label with a kernel's id where the name differs: of claims, and of a pod that bai has adopted."""
SHARING = f"{PREFIX}sharing"
"""The label of a claim whose GPU several kernels have parts of: what holds them to these."""
STAYS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Annotations by which autoscalers leave a pod, and so its node, where a plan has put it."""
_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LONGEST = 63
_TEXTS = frozenset(each.name for each in fields(Labels)) - {"generation", "protected"}


def to_annotation(labels: Labels) -> str:
    return json.dumps(asdict(labels), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def from_annotation(metadata: Mapping[str, Any]) -> Labels | None:
    """None where a pod has none, or such as bai never writes."""
    try:
        said = json.loads((metadata.get("annotations") or {})[LABELS])
        texts = {name: said[name] for name in _TEXTS}
        if not all(isinstance(text, str) for text in texts.values()):
            return None
        generation, protected = said["generation"], said["protected"]
        if type(generation) is not int or not 0 <= generation < 2**53 or type(protected) is not bool:
            return None
        return Labels(**texts, generation=generation, protected=protected)
    except (KeyError, ValueError, TypeError):
        return None


def selectable(labels: Labels, network: str = "") -> dict[str, str]:
    """Labels of the pod. `network`: of its session, which its service selects by."""
    ref = ref_of(labels.resource)
    wanted = {
        f"{PREFIX}project": ref.project,
        f"{PREFIX}session": ref.name,
        f"{PREFIX}container": labels.kernel,
        f"{PREFIX}owner": owner_hash(labels.repo, labels.cluster),
        f"{PREFIX}network": network,
    }
    return {**MANAGED, **{name: value for name, value in wanted.items() if _fits(value)}}


def adopted_id(metadata: Mapping[str, Any]) -> str:
    """The id of the kernel that an adopted pod is; empty: bai has made it, and its name is the id."""
    return str((metadata.get("labels") or {}).get(KERNEL) or "")


def is_consistent(metadata: Mapping[str, Any], found: Labels) -> bool:
    """Whether a pod that says that it was adopted is called as that kernel of its session is."""
    said = adopted_id(metadata)
    wanted = kernel_id(found.repo, found.cluster, found.resource, found.kernel, found.generation)
    return said in ("", wanted)


def adopted(labels: Labels) -> dict[str, str]:
    """Labels that are added to a pod of others when it is adopted."""
    name = kernel_id(labels.repo, labels.cluster, labels.resource, labels.kernel, labels.generation)
    return {**selectable(labels), KERNEL: name}


def owner_hash(repo: str, cluster: str) -> str:
    """Of the repository and cluster that a pod is of."""
    return hashlib.sha256(f"{repo}/{cluster}".encode()).hexdigest()[:16]


def _fits(value: str) -> bool:
    return len(value) <= _LONGEST and _VALUE.fullmatch(value) is not None
