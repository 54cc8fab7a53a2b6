"""Labels by which Node Feature Discovery and NVIDIA's GPU Feature Discovery tell of nodes. Pure.

Only what nothing else tells: kernel and distribution are in the node's status already. Whoever may label
nodes writes them: what is no version is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from schemas.hardware.model import Software

_NFD = "feature.node.kubernetes.io/"
_DRIVER = "nvidia.com/cuda.driver-version.full"
_DRIVER_PARTS = tuple(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev"))
_CUDA = "nvidia.com/cuda.runtime-version.full"
_CUDA_PARTS = tuple(f"nvidia.com/cuda.runtime.{part}" for part in ("major", "minor"))
_SEVERAL_NUMA_NODES = f"{_NFD}memory-numa"
_THREADS = f"{_NFD}cpu-hardware_multithreading"
_RDMA = (f"{_NFD}rdma.capable", f"{_NFD}custom-rdma.capable")
KEYS = frozenset({_DRIVER, *_DRIVER_PARTS, _CUDA, *_CUDA_PARTS, _SEVERAL_NUMA_NODES, _THREADS, *_RDMA})
"""Labels that are kept of nodes."""
_VERSION = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,5}){0,3}")


def told_software(labels: Mapping[str, str]) -> Software:
    """Versions of NVIDIA's driver, and of the CUDA that it has."""
    return Software(
        nvidia_driver=_version(labels, _DRIVER, _DRIVER_PARTS), cuda=_version(labels, _CUDA, _CUDA_PARTS)
    )


def _version(labels: Mapping[str, str], whole: str, parts: tuple[str, ...]) -> str | None:
    """As one label, or in parts, as releases before 0.16 wrote it."""
    said = labels.get(whole) or ".".join(labels[part] for part in parts if part in labels)
    return said if _VERSION.fullmatch(said) else None


def open_questions(labels: Mapping[str, str], *, cores: bool, nics: bool) -> Iterator[str]:
    """What the labels say that there is, and nothing tells more of. `cores`: each CPU is published; `nics`:
    so are RDMA NICs."""
    if not cores and labels.get(_SEVERAL_NUMA_NODES) == "true":
        yield "how many NUMA nodes: several, by a label of Node Feature Discovery"
    if not cores and labels.get(_THREADS) == "true":
        yield "how many threads a core has: more than one, by a label of Node Feature Discovery"
    if not nics and any(labels.get(each) == "true" for each in _RDMA):
        yield "RDMA NICs: there are some, by a label of Node Feature Discovery, and no driver publishes them"
