"""What is drawn of a cluster over time: the same here and by Grafana, whose dashboard is made of this list
(`scripts/gen_server.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["%", "s", ""]


@dataclass(frozen=True, slots=True)
class Picture:
    """`figures`: by their names, those that it is made of. `whole`: it is about the cluster, whichever group
    is chosen."""

    key: str
    title: str
    about: str
    figures: tuple[str, ...]
    unit: Unit = ""
    whole: bool = False


PICTURES = (
    Picture(
        "utilisation", "Allocated", "What sessions hold, of what there is.",
        ("bai_allocated", "bai_capacity", "bai_held"), "%",
    ),
    Picture(
        "used", "Used of what is allocated",
        "Of the sessions whose use is measured; GPUs that are shared are not in it.",
        ("bai_used", "bai_measured"), "%",
    ),
    Picture("running", "Running", "Sessions that run, by resource group.", ("bai_sessions_running",)),
    Picture("queue", "Waiting", "Sessions that wait, by resource group.", ("bai_queue_length",)),
    Picture(
        "waits", "Longest wait by reason", "How long who waits longest has waited, for each reason.",
        ("bai_queue_oldest_seconds",), "s",
    ),
    Picture("reasons", "Why they wait", "Sessions by reason.", ("bai_queue_reasons",)),
    Picture(
        "fits", "What still fits", "How many more sessions of a size would fit: fragmentation.",
        ("bai_fits",),
    ),
    Picture("sessions", "Sessions", "By phase.", ("bai_sessions",), whole=True),
    Picture(
        "numa", "Locality", "Sessions by the most NUMA nodes that one of their containers lies on.",
        ("bai_sessions_by_numa_nodes",), whole=True,
    ),
    Picture(
        "spread", "Spread", "Sessions by the nodes that they lie on.", ("bai_sessions_by_nodes",), whole=True
    ),
    Picture(
        "wrong", "Not as it should be", "Nodes that do not answer, and what is other than recorded.",
        ("bai_nodes_unreached", "bai_drifts"), whole=True,
    ),
)  # fmt: skip
