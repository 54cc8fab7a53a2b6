"""`nvidia-smi -q -x`: the GPUs themselves: model, memory, address, MIG, health, driver. Nothing about CPUs
or links. And `nvidia-smi -L`: their names and UUIDs, and the profile of each MIG device."""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element

from schemas.hardware.gpu_health import HealthCounters, health_problems
from schemas.hardware.importers.facts import Facts, UnreadableCapture
from schemas.hardware.importers.safe_xml import parse_number, parse_xml
from schemas.hardware.mig import MigInstance, profile_of_instance
from schemas.hardware.model import Gpu
from schemas.hardware.sysfs.pci import normalize_address

_LISTED_GPU = re.compile(r"\s*GPU ([0-9]{1,3}): (\S.{0,200}?) \(UUID: (GPU-[0-9a-fA-F-]{1,60})\)\s*\Z")
_LISTED_MIG = re.compile(
    r"\s*MIG (\S{1,40})\s+Device\s+([0-9]{1,3}): \(UUID: (MIG-[0-9a-zA-Z/-]{1,100})\)\s*\Z"
)
_PROFILE = re.compile(r"(?:[1-7]c\.)?[1-7]g\.[0-9]{1,3}gb(?:[+-][a-z.+-]{1,20})?\Z")


def read_smi_query(data: bytes) -> Facts:
    """Raises UnreadableCapture."""
    root = parse_xml(data)
    gpus = root.findall("gpu")
    attached = parse_number(root.findtext("attached_gpus"))
    facts = Facts("nvidia-smi -q -x", gpus=[_gpu_fields(index, gpu) for index, gpu in enumerate(gpus)])
    if attached is not None and attached != len(gpus):
        facts.notes.append(
            f"{attached} GPUs are attached, {len(gpus)} are in the capture of nvidia-smi -q -x"
        )
    facts.software = {
        "nvidia_driver": _text_at(root, "driver_version"),
        "cuda": _text_at(root, "cuda_version"),
    }
    return facts


def _gpu_fields(index: int, gpu: Element) -> dict[str, Any]:
    address = normalize_address(gpu.get("id", "") or _text_at(gpu, "pci/pci_bus_id") or "")
    if address is None:
        raise UnreadableCapture(f"GPU {index} has no PCI address")
    mode = (_text_at(gpu, "mig_mode/current_mig") or "").lower()
    wrong = _health_problems(gpu)
    uuid = _text_at(gpu, "uuid")
    fields: dict[str, Any] = {
        "id": uuid or address,
        "index": index,
        "slot": "cuda",
        "vendor": "nvidia",
        "model": _text_at(gpu, "product_name"),
        "pci": address,
        "memory": _mebibytes(gpu, "fb_memory_usage/total"),
        "mig": mode if mode in ("enabled", "disabled") else None,
        "healthy": not wrong,
        "health": tuple(wrong),
    }
    _add_mig_devices(fields, gpu)
    return fields


def _text_at(element: Element, path: str) -> str | None:
    """The text at a path; None for what nvidia-smi has no value for."""
    found = (element.findtext(path) or "").strip()
    return None if found in ("", "N/A", "[N/A]", "Not Found") else found


def _count(element: Element, *paths: str) -> int:
    return sum(parse_number(_text_at(element, path)) or 0 for path in paths)


def _mebibytes(element: Element, path: str) -> int:
    found = re.match(r"([0-9]{1,9}) MiB", _text_at(element, path) or "")
    return int(found[1]) << 20 if found else 0


def _health_problems(gpu: Element) -> list[str]:
    ecc = "ecc_errors/volatile/"
    names = (
        "sram_uncorrectable",
        "sram_uncorrectable_parity",
        "sram_uncorrectable_secded",
        "dram_uncorrectable",
    )
    total = _count(gpu, *(ecc + name for name in names)) or _count(gpu, ecc + "double_bit/total")
    wrong = health_problems(
        HealthCounters(
            uncorrected=total,
            rows_failed=_text_at(gpu, "remapped_rows/remapped_row_failure") == "Yes",
            rows_pending=_text_at(gpu, "remapped_rows/remapped_row_pending") == "Yes",
            retired=_count(gpu, "retired_pages/double_bit_retirement/retired_count"),
            retirement_pending=_text_at(gpu, "retired_pages/pending_retirement") == "Yes",
        )
    )
    action = _text_at(gpu, "gpu_recovery_action")
    return wrong if action in (None, "None") else [*wrong, f"the driver asks for recovery: {action}"]


def _add_mig_devices(fields: dict[str, Any], gpu: Element) -> None:
    """The profiles are not in the capture: they follow from memory and multiprocessors, or stay unknown, as
    all instances of a GPU do then."""
    parent = Gpu(id="", index=0, model=fields["model"] or "", memory=fields["memory"])
    devices = []
    for device in gpu.iter("mig_device"):
        profile = profile_of_instance(parent, _mig_instance(device))
        instance, compute = _text_at(device, "gpu_instance_id"), _text_at(device, "compute_instance_id")
        devices.append({"id": f"{fields['id']}/gi{instance}/ci{compute}", "profile": profile})
    fields["mig_devices_unknown"] = any(device["profile"] is None for device in devices)
    fields["mig_devices"] = [] if fields["mig_devices_unknown"] else devices


def _mig_instance(device: Element) -> MigInstance:
    shared = "device_attributes/shared/"
    return MigInstance(
        memory=_mebibytes(device, "fb_memory_usage/total"),
        multiprocessors=_count(device, shared + "multiprocessor_count"),
        copy_engines=parse_number(_text_at(device, shared + "copy_engine_count")),
        media_engines=parse_number(_text_at(device, shared + "ofa_count")),
    )


def is_smi_list(text: str) -> bool:
    """Whether a line of the text is one of a GPU."""
    return any(_LISTED_GPU.match(line) for line in text.splitlines() if line.lstrip().startswith("GPU "))


def read_smi_list(text: str) -> Facts:
    """Raises UnreadableCapture for a MIG device without a GPU, or with a profile of no known form."""
    gpus: list[dict[str, Any]] = []
    for at, line in enumerate(text.splitlines(), start=1):
        if found := _LISTED_GPU.match(line):
            index, model, uuid = int(found[1]), found[2], found[3]
            if any(gpu["index"] == index or gpu["id"] == uuid for gpu in gpus):
                raise UnreadableCapture(
                    f"GPU {index} is listed twice", at, hint="save each machine in a file of its own"
                )
            gpus.append({"id": uuid, "index": index, "slot": "cuda", "vendor": "nvidia", "model": model})
        elif found := _LISTED_MIG.match(line):
            if not gpus:
                raise UnreadableCapture("a MIG device before any GPU", at, hint="save all of nvidia-smi -L")
            if not _PROFILE.match(found[1]):
                raise UnreadableCapture(
                    f"{found[1]!r} is not a MIG profile such as 1g.10gb", at, found.start(1) + 1
                )
            gpus[-1]["mig"] = "enabled"
            gpus[-1].setdefault("mig_devices", []).append({"id": found[3], "profile": found[1]})
    return Facts("nvidia-smi -L", gpus=gpus)
