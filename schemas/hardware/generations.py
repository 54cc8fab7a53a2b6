"""Which generation a GPU is of, and which drivers can run it.

Sources: NVIDIA's "CUDA Toolkit, Driver, and Architecture Matrix" (first CUDA toolkit and last driver branch
of each architecture), the CUDA release notes (the driver that a toolkit needs at least), the installation
guide of drivers ("Kernel Modules": the open ones are for Turing and newer; "Proprietary Kernel Modules
Removed", 620), and NVIDIA's announcement of the open modules (Grace Hopper and Blackwell run with these
only).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FIRST_OPEN = 515
"""Driver branch that first had open kernel modules."""
DEFAULT_OPEN = 560
"""Driver branch from which the open ones are what NVIDIA installs."""
ONLY_OPEN = 620
"""Driver branch from which there are no proprietary ones any more."""


@dataclass(frozen=True, slots=True)
class GpuGeneration:
    """An architecture. `order` counts from the oldest."""

    name: str
    order: int
    first_driver: str | None
    """None: before any that is still packaged."""
    last_branch: int | None = None
    """None: supported on."""

    @property
    def can_open(self) -> bool:
        """Whether the open kernel modules can run it: they need the GPU's system processor, new in Turing."""
        return self.order >= TURING.order


KEPLER = GpuGeneration("Kepler", 0, None, 470)
MAXWELL = GpuGeneration("Maxwell", 1, None, 580)
PASCAL = GpuGeneration("Pascal", 2, "367.48", 580)
VOLTA = GpuGeneration("Volta", 3, "384.81", 580)
TURING = GpuGeneration("Turing", 4, "410.48")
AMPERE = GpuGeneration("Ampere", 5, "450.36.06")
ADA = GpuGeneration("Ada", 6, "520.61.05")
HOPPER = GpuGeneration("Hopper", 7, "520.61.05")
BLACKWELL = GpuGeneration("Blackwell", 8, "570.26")

_MODELS: tuple[tuple[GpuGeneration, str], ...] = (
    (BLACKWELL, r"\bG?B[123]00\b|\bGB10\b|\bRTX PRO \d{4}|\bRTX 50\d\d|Blackwell"),
    (HOPPER, r"\b(GH200|H[128]00|H20)\b|Hopper"),
    (ADA, r"\b(L2|L4|L20|L40[SG]?)\b|\bAda\b|\bRTX 40\d\d"),
    (AMPERE, r"\b(A2|A10[GM]?|A16|A30X?|A40|A[18]00X?)\b|\bRTX A\d{3,4}|\bRTX 30\d\d|Ampere"),
    (
        TURING,
        r"\bT4G?\b|\bT(400|500|600|1000|1200|2000)\b|Quadro RTX|TITAN RTX|\bRTX 20\d\d|\bGTX 16\d\d|Turing",
    ),
    (VOLTA, r"\bV100S?\b|TITAN V\b|\bGV100\b|Volta"),
    (PASCAL, r"\bP(4|6|40|100)\b|\bGTX 10\d\d|TITAN Xp?\b|\bGP100\b|Quadro P\d+|Pascal"),
    (MAXWELL, r"\bM(4|6|10|40|60)\b|\bGTX 9\d\d|\bGTX 75\d|Quadro M\d+|Maxwell"),
    (KEPLER, r"\bK(10|20|40|80|520)[a-z]*\b|\bGTX 7[678]\d|Quadro K\d+|Kepler"),
)
_FIRST: tuple[tuple[str, str], ...] = ((r"\bG?B200\b", "570.133.20"),)
"""Models that came after their generation's first driver (release notes of the GPU operator)."""


def gpu_generation(model: str) -> GpuGeneration | None:
    """The generation of a GPU by its name as nvidia-smi or people write it; None for an unknown one."""
    return next((one for one, pattern in _MODELS if re.search(pattern, model, re.IGNORECASE)), None)


def first_driver(model: str) -> str | None:
    """The oldest driver that runs this GPU; None for an unknown one."""
    own = next((version for pattern, version in _FIRST if re.search(pattern, model, re.IGNORECASE)), None)
    generation = gpu_generation(model)
    return own or (generation.first_driver if generation else None)


def needs_open(model: str) -> bool:
    """Whether only the open kernel modules run it: Blackwell, and Grace Hopper."""
    generation = gpu_generation(model)
    return generation == BLACKWELL or is_grace(model)


def needs_subnet_manager(model: str) -> bool:
    """Whether the NVSwitches of boards with this GPU are of the fourth generation, which the subnet manager
    of NVLink sets up beside the fabric manager (its user guide, "NVSwitch Core Software Stack")."""
    return bool(re.search(r"\bB[123]00\b", model, re.IGNORECASE))


def is_grace(model: str) -> bool:
    """Whether this GPU is part of one with a Grace processor."""
    return bool(re.search(r"\bG[HB][23]00\b|Grace", model, re.IGNORECASE))


def has_switches(model: str, count: int) -> bool:
    """Whether so many of this GPU in one machine are surely joined by NVSwitches: boards with eight of the
    SXM kind (Fabric Manager user guide, "NVSwitch-Based Systems"); four are wired directly, cards not."""
    board = re.search(
        r"\b(A[18]00-SXM|H[18]00 .*HBM|H[18]00-SXM|H20\b|H200\b|B[123]00\b)", model, re.IGNORECASE
    )
    card = re.search(r"PCIe|\bNVL\b", model, re.IGNORECASE)
    return bool(board) and not card and count >= 8
