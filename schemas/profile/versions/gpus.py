"""GPUs that are shared: MIG layouts and MPS.

Sources: NVIDIA's MIG user guide ("Deployment Considerations": the driver that each GPU's MIG needs;
"Supported MIG Profiles"), mig-parted's default configuration (names of profiles), and the MPS guide (limits
of memory and threads for each client, on which shares rest, are of Volta and newer).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from schemas.hardware.generations import VOLTA, gpu_generation
from schemas.hardware.mig import PRODUCTS, MigProduct, instances_fit, products_of, profile_names
from schemas.problems.issues import Issue, Loc
from schemas.profile import NodeProfileSpec
from schemas.profile.roles.mig import Mig
from schemas.profile.versions.version_numbers import is_older, version_numbers

MIG: Loc = ("spec", "mig")
_FIRST: tuple[tuple[str, str], ...] = (
    (r"\bA30X?\b", "460.73.01"),
    (r"\bA[18]00X?\b", "450.80.02"),
    (r"\bH20\b", "535.161.07"),
    (r"\bH200\b", "550.90.07"),
    (r"\b(H[18]00|GH200)\b", "525.85.12"),
    (r"\bG?B200\b", "570.133.20"),
    (r"\bG?B300\b", "580.82.07"),
    (r"\bRTX PRO 6000\b", "575.51.03"),
    (r"\bRTX PRO 5000\b", "575.57.08"),
    (r"\bRTX PRO 4500\b", "575.64"),
)
"""Model → the first driver with MIG on it."""


def first_with_mig(model: str) -> str | None:
    """The oldest driver that divides this GPU; None when it is not known to be divisible."""
    return next((version for pattern, version in _FIRST if re.search(pattern, model, re.IGNORECASE)), None)


def rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    """Everything about MIG and MPS that no GPU, or none of the profile's, can do."""
    models = spec.nvidia_driver.gpus if spec.nvidia_driver else ()
    if spec.mig is not None:
        yield from _index_rules(spec.mig)
        yield from _layout_rules(spec.mig, models)
        yield from _driver_rules(spec, models)
    if spec.mps is not None:
        for index, model in enumerate(models):
            yield from mps_issues(model, ("spec", "nvidiaDriver", "gpus", index))


def _index_rules(mig: Mig) -> Iterator[Issue]:
    named = Counter(number for layout in mig.layouts for number in layout.gpus)
    rest = [at for at, layout in enumerate(mig.layouts) if not layout.gpus]
    for at, layout in enumerate(mig.layouts):
        for index, number in enumerate(layout.gpus):
            if named[number] > 1:
                message = f"GPU {number} stands in several layouts, or twice in one"
                yield Issue((*MIG, "layouts", at, "gpus", index), message, "keep one", "BAI-V065")
        if not layout.enabled and layout.instances:
            message = "instances on GPUs that stay whole"
            hint = "leave enabled or instances out"
            yield Issue((*MIG, "layouts", at, "instances"), message, hint, "BAI-V065", key=True)
    for at in rest[1:]:
        message = "two layouts are for all GPUs that no other one names"
        yield Issue((*MIG, "layouts", at), message, "say of one which gpus it is for", "BAI-V065")


def _layout_rules(mig: Mig, models: Sequence[str]) -> Iterator[Issue]:
    known = [product for model in models for product in products_of(model)]
    if models and not known and all(lacks_mig(model) for model in models):
        message = f"{models[0]} cannot be divided: it has no MIG"
        yield Issue(MIG, message, "leave mig out", "BAI-V065", key=True)
        return
    if any(has_unknown_mig_profiles(model) for model in models):
        return
    for at, layout in enumerate(mig.layouts):
        yield from layout_issues(layout.instances, known or PRODUCTS, (*MIG, "layouts", at, "instances"))


def lacks_mig(model: str) -> bool:
    """Whether this GPU is known, and known to have no MIG."""
    return gpu_generation(model) is not None and first_with_mig(model) is None


def has_unknown_mig_profiles(model: str) -> bool:
    """Whether the MIG profiles of this GPU are not known here."""
    return not lacks_mig(model) and not products_of(model)


def layout_issues(instances: Mapping[str, int], products: Sequence[MigProduct], at: Loc) -> Iterator[Issue]:
    """Why instances cannot be made on any of these GPUs."""
    names = tuple(profile_names(products))
    strange = [name for name in instances if re.split(r"[+-]", name)[0] not in names]
    where = "one of these GPUs" if len(products) < len(PRODUCTS) else "any one GPU"
    for name in strange:
        message = f"{name} is not a profile of {where}"
        yield Issue((*at, name), message, _nearest_profile(name, names), "BAI-V065")
    if instances and not strange and not any(instances_fit(product, instances) for product in products):
        said = ", ".join(f"{count} × {name}" for name, count in instances.items())
        message = f"{said} have no places beside each other on {where}"
        yield Issue(at, message, "leave some out", "BAI-V065")


def _nearest_profile(name: str, names: Sequence[str]) -> str:
    """The profile of as many slices that comes nearest in memory."""
    size = _profile_gigabytes(name)
    near = [one for one in names if one.partition("g.")[0] == name.partition("g.")[0]]
    meant = min(near, key=lambda one: abs(_profile_gigabytes(one) - size), default="")
    return f"did you mean '{meant}'?" if meant else f"known are {', '.join(names)}"


def _profile_gigabytes(name: str) -> int:
    found = re.search(r"\.([0-9]{1,9})gb", name)
    return int(found[1]) if found else 0


def _driver_rules(spec: NodeProfileSpec, models: Sequence[str]) -> Iterator[Issue]:
    driver = spec.nvidia_driver
    if driver is None or spec.mig is None:
        return
    for index, model in enumerate(models):
        yield from mig_driver_issues(driver.version, model, ("spec", "nvidiaDriver", "gpus", index))
    if models:
        return
    for at, layout in enumerate(spec.mig.layouts):
        able = [
            product for product in PRODUCTS if layout.instances and instances_fit(product, layout.instances)
        ]
        first = [version for p in able if (version := first_with_mig(p.example)) is not None]
        if first and all(is_older(driver.version, version) for version in first):
            oldest = min(first, key=version_numbers)
            message = f"no GPU has this layout with driver {driver.version}: it takes {oldest} or newer"
            place: Loc = (*MIG, "layouts", at, "instances")
            yield Issue(place, message, "choose a newer driver", "BAI-V066", key=True)


def mig_driver_issues(version: str, model: str, at: Loc) -> Iterator[Issue]:
    """Why a driver cannot divide a GPU of this model."""
    first = first_with_mig(model)
    if first is not None and is_older(version, first):
        message = f"MIG on {model} needs driver {first} or newer, this is {version}"
        yield Issue(at, message, "choose a newer driver", "BAI-V066")


def mps_issues(model: str, at: Loc) -> Iterator[Issue]:
    """Why a GPU of this model cannot be shared through MPS."""
    generation = gpu_generation(model)
    if generation is not None and generation.order < VOLTA.order:
        message = f"{model} ({generation.name}) has no limits for MPS clients, which came with Volta"
        yield Issue(at, message, "leave mps out", "BAI-V072")
