"""MIG: the profiles of each GPU and where their instances fit.

A GPU has 8 memory slices (4 on the A30 and RTX PRO 6000), and a profile takes a run of them at certain starts
only (NVIDIA's MIG user guide, "Supported MIG Profiles"). The profiles' names follow from a GPU's memory;
`PRODUCTS` has those that NVIDIA's mig-parted ships in its default configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from schemas.hardware.model import Gpu

_NAME = re.compile(r"([0-9]{1,2})g\.([0-9]{1,4})gb([+-].*)?\Z")
_GIB = 1 << 30
_STARTS: dict[int, dict[tuple[int, int], tuple[int, ...]]] = {
    8: {
        (1, 1): (0, 1, 2, 3, 4, 5, 6),
        (1, 2): (0, 2, 4, 6),
        (2, 2): (0, 2, 4),
        (3, 4): (0, 4),
        (4, 4): (0,),
        (7, 8): (0,),
    },
    4: {(1, 1): (0, 1, 2, 3), (2, 2): (0, 2), (4, 4): (0,)},
}
"""Memory slices of the GPU → (compute slices, memory slices) of a profile → its starts."""
_WITHOUT_MEMORY = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
_PROCESSORS: tuple[tuple[str, dict[tuple[int, int], int]], ...] = (
    (r"A30X?|A[18]00X?", {(1, 1): 14, (1, 2): 14, (2, 2): 28, (3, 4): 42, (4, 4): 56, (7, 8): 98}),
    (r"H[128]00|GH200", {(1, 1): 16, (1, 2): 26, (2, 2): 32, (3, 4): 60, (4, 4): 64, (7, 8): 132}),
    (r"B200", {(1, 1): 18, (2, 2): 36, (4, 4): 72}),
)
"""Multiprocessors of the profiles, as `nvidia-smi mig -lgip` prints them; only where they are known. On
Hopper and newer they are no multiple of one slice's."""


class MigProfile(NamedTuple):
    """A profile on one kind of GPU. `size` in memory slices; `alone`: one of it per GPU at most (`+me`)."""

    name: str
    size: int
    starts: tuple[int, ...]
    alone: bool


class MigInstance(NamedTuple):
    """What the driver tells of an instance that exists. None: it did not tell."""

    memory: int
    """Bytes."""
    multiprocessors: int
    copy_engines: int | None = None
    media_engines: int | None = None
    """Engines for optical flow, which only one profile of one slice has: `+me`."""


class MigProduct(NamedTuple):
    """A GPU that can be divided: what its model's name matches, its memory in GB as its maker counts, and the
    names of its profiles, smallest first."""

    model: str
    memory: int
    profiles: tuple[str, ...]

    @property
    def example(self) -> str:
        """One model's name that the pattern stands for."""
        return re.sub(r"\[(\w)\w*\]|X\?", r"\1", self.model).partition("|")[0]


def _seven_slice_product(model: str, memory: int, one: int, double: int, half: int) -> MigProduct:
    names = (f"1g.{one}gb", f"1g.{double}gb", f"2g.{double}gb", f"3g.{half}gb", f"4g.{half}gb")
    return MigProduct(model, memory, (*names, f"7g.{memory}gb"))


PRODUCTS: tuple[MigProduct, ...] = (
    MigProduct(r"A30X?", 24, ("1g.6gb", "2g.12gb", "4g.24gb")),
    _seven_slice_product(r"A[18]00", 40, 5, 10, 20),
    _seven_slice_product(r"[AH][18]00X?", 80, 10, 20, 40),
    _seven_slice_product(r"H[18]00", 94, 12, 24, 47),
    _seven_slice_product(r"H100|GH200|H20", 96, 12, 24, 48),
    _seven_slice_product(r"H200", 141, 18, 35, 71),
    _seven_slice_product(r"GH200", 144, 18, 36, 72),
    _seven_slice_product(r"B200", 180, 23, 45, 90),
    _seven_slice_product(r"GB200", 189, 24, 47, 95),
    _seven_slice_product(r"B300", 269, 34, 67, 135),
    MigProduct(r"RTX PRO 6000", 96, ("1g.24gb", "2g.48gb", "4g.96gb")),
)


def products_of(model: str, memory: int = 0) -> tuple[MigProduct, ...]:
    """The GPUs that a model can mean, narrowed by memory in bytes or by an amount in its name (`80GB`);
    none when it is not known to be divisible."""
    named = [one for one in PRODUCTS if re.search(rf"\b({one.model})\b", model, re.IGNORECASE)]
    written = re.search(r"\b(\d{2,3}) ?GB\b", model, re.IGNORECASE)
    if memory:
        near = [one for one in named if abs(memory / _GIB - one.memory) < 0.06 * one.memory]
        return tuple(sorted(near, key=lambda one: abs(memory / _GIB - one.memory))[:1])
    if written and any(one.memory == int(written[1]) for one in named):
        return tuple(one for one in named if one.memory == int(written[1]))
    return tuple(named)


def profile_on(gpu: Gpu, name: str) -> MigProfile | None:
    """The profile as this GPU has it; None for one that it has not."""
    match = _NAME.match(name)
    if match is None:
        return None
    compute, memory = int(match[1]), int(match[2])
    slices, table = _memory_slices(gpu), placements(gpu)
    size = _WITHOUT_MEMORY.get(compute, 0)
    if gpu.memory:
        exact = memory * slices * _GIB / gpu.memory
        size = min((one for _, one in table), key=lambda one: abs(exact - one))
        if abs(exact - size) > 0.25 * size:
            return None
    starts = table.get((compute, size))
    return MigProfile(name, size, starts, "+me" in name) if starts else None


def placements(gpu: Gpu) -> Mapping[tuple[int, int], tuple[int, ...]]:
    """(compute slices, memory slices) of each profile of this GPU → the memory slices where it can start."""
    return _STARTS[_memory_slices(gpu)]


def _memory_slices(gpu: Gpu) -> int:
    """Memory slices of the whole GPU."""
    return 4 if re.search(r"\bA30\b|RTX PRO", gpu.model) else 8


def whole_slices(profile: str, models: Iterable[str] = ()) -> int:
    """Compute slices of the whole GPU that an instance of this profile is of: where several products have one
    of this name, of those among `models`. Seven where nothing says otherwise."""
    name = re.split(r"[+-]", profile)[0]
    having = [product for product in PRODUCTS if name in product.profiles]
    meant = {product for model in models for product in products_of(model)}
    chosen = [product for product in having if product in meant] or having
    return max((int(product.profiles[-1].partition("g")[0]) for product in chosen), default=7)


def profile_of(product: MigProduct, name: str) -> MigProfile | None:
    """The profile as this product has it, by its exact name; None for one that it has not."""
    if re.split(r"[+-]", name)[0] not in product.profiles:
        return None
    return profile_on(Gpu(id="", index=0, model=product.example, memory=product.memory * _GIB), name)


def profile_of_instance(gpu: Gpu, instance: MigInstance) -> str | None:
    """The name of an instance's profile: of those that this GPU has, the one with its memory and its
    multiprocessors. None where these leave a choice."""
    found = products_of(gpu.model, gpu.memory) if gpu.memory else ()
    if not found or not instance.memory:
        return None
    slices = _memory_slices(gpu)
    exact = instance.memory * slices / gpu.memory
    size = next((size for size in (1, 2, 4, 8) if exact <= size * 1.02), 0)
    if size > slices or exact < 0.75 * size:
        return None
    fits = {
        int(name[0]): name
        for name in found[0].profiles
        if (profile := profile_of(found[0], name)) and profile.size == size
    }
    if len(fits) > 1:
        fits = {compute: name for compute, name in fits.items() if _is_size_of(gpu, instance, compute, size)}
    if len(fits) != 1:
        return None
    ((compute, name),) = fits.items()
    return f"{name}+me" if (compute, size) == (1, 1) and instance.media_engines else name


def instance_of_profile(gpu: Gpu, name: str) -> tuple[tuple[int, int], int | None] | None:
    """The least and the most memory in bytes that an instance of this profile has, and its multiprocessors
    where they are known. None for a profile that this GPU has not, or whose memory is not known."""
    profile = profile_on(gpu, name)
    if profile is None or not gpu.memory:
        return None
    exact = gpu.memory * profile.size // _memory_slices(gpu)
    return (exact * 3 // 4, exact * 51 // 50), _processors_of(gpu).get((int(name[0]), profile.size))


def _processors_of(gpu: Gpu) -> Mapping[tuple[int, int], int]:
    return next((table for model, table in _PROCESSORS if re.search(rf"\b({model})\b", gpu.model)), {})


def _is_size_of(gpu: Gpu, instance: MigInstance, compute: int, size: int) -> bool:
    """Whether so many compute slices have the multiprocessors and copy engines of an instance. Part of a
    larger instance may have the same multiprocessors as all of a smaller one: the engines are the whole's."""
    known = _processors_of(gpu)
    engines = instance.copy_engines
    counted = engines is None or engines == compute or bool(re.search(r"\bB200\b", gpu.model))
    return known.get((compute, size)) == instance.multiprocessors and counted


def instances_fit(product: MigProduct, instances: Mapping[str, int]) -> bool:
    """Whether so many instances of each profile have places beside each other on one GPU."""
    wanted: list[MigProfile] = []
    for name, count in instances.items():
        profile = profile_of(product, name)
        if profile is None or (profile.alone and count > 1):
            return False
        wanted += [profile] * count
    if sum(profile.alone for profile in wanted) > 1 or sum(p.size for p in wanted) > 8:
        return False
    return _can_place(sorted(wanted, key=lambda p: (len(p.starts), -p.size)), 0)


def _can_place(wanted: Sequence[MigProfile], taken: int) -> bool:
    if not wanted:
        return True
    first, *rest = wanted
    runs = (((1 << first.size) - 1) << start for start in first.starts)
    return any(_can_place(rest, taken | run) for run in runs if not taken & run)


def profile_names(products: Iterable[MigProduct]) -> Iterator[str]:
    """The names of all profiles of some products, each once."""
    yield from dict.fromkeys(name for product in products for name in product.profiles)
