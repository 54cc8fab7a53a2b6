"""`nvidia-smi -q -x`: the GPUs themselves: model, memory, address, MIG, health, driver. Nothing about CPUs
or links."""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element

from schemas.hardware.health import Symptoms, complaints
from schemas.hardware.importers.facts import Facts, NotReadable
from schemas.hardware.importers.markup import number, parse
from schemas.hardware.sysfs.pci import address_of

_SLICES = 7


def query(data: bytes) -> Facts:
    """Raises NotReadable."""
    root = parse(data)
    gpus = root.findall("gpu")
    attached = number(root.findtext("attached_gpus"))
    facts = Facts("nvidia-smi -q -x", gpus=[_gpu(index, gpu) for index, gpu in enumerate(gpus)])
    if attached is not None and attached != len(gpus):
        facts.notes.append(
            f"{attached} GPUs are attached, {len(gpus)} are in the capture of nvidia-smi -q -x"
        )
    facts.software = {"nvidia_driver": _text(root, "driver_version"), "cuda": _text(root, "cuda_version")}
    return facts


def _gpu(index: int, gpu: Element) -> dict[str, Any]:
    address = address_of(gpu.get("id", "") or _text(gpu, "pci/pci_bus_id") or "")
    if address is None:
        raise NotReadable(f"GPU {index} has no PCI address")
    mode = (_text(gpu, "mig_mode/current_mig") or "").lower()
    wrong = _complaints(gpu)
    uuid = _text(gpu, "uuid")
    return {
        "id": uuid or address,
        "index": index,
        "slot": "cuda",
        "vendor": "nvidia",
        "model": _text(gpu, "product_name"),
        "pci": address,
        "memory": _mebibytes(gpu, "fb_memory_usage/total"),
        "mig": mode if mode in ("enabled", "disabled") else None,
        "mig_devices": [
            _mig(uuid or address, device, _text(gpu, "product_architecture"))
            for device in gpu.iter("mig_device")
        ],
        "healthy": not wrong,
        "health": tuple(wrong),
    }


def _text(element: Element, path: str) -> str | None:
    """The text at a path; None for what nvidia-smi has no value for."""
    found = (element.findtext(path) or "").strip()
    return None if found in ("", "N/A", "[N/A]", "Not Found") else found


def _count(element: Element, *paths: str) -> int:
    return sum(number(_text(element, path)) or 0 for path in paths)


def _mebibytes(element: Element, path: str) -> int:
    found = re.match(r"(\d{1,9}) MiB", _text(element, path) or "")
    return int(found[1]) << 20 if found else 0


def _complaints(gpu: Element) -> list[str]:
    ecc = "ecc_errors/volatile/"
    names = (
        "sram_uncorrectable",
        "sram_uncorrectable_parity",
        "sram_uncorrectable_secded",
        "dram_uncorrectable",
    )
    total = _count(gpu, *(ecc + name for name in names)) or _count(gpu, ecc + "double_bit/total")
    wrong = complaints(
        Symptoms(
            uncorrected=total,
            rows_failed=_text(gpu, "remapped_rows/remapped_row_failure") == "Yes",
            rows_pending=_text(gpu, "remapped_rows/remapped_row_pending") == "Yes",
            retired=_count(gpu, "retired_pages/double_bit_retirement/retired_count"),
            retirement_pending=_text(gpu, "retired_pages/pending_retirement") == "Yes",
        )
    )
    action = _text(gpu, "gpu_recovery_action")
    return wrong if action in (None, "None") else [*wrong, f"the driver asks for recovery: {action}"]


def _mig(parent: str, device: Element, architecture: str | None) -> dict[str, Any]:
    """The profile is not in the capture: slices follow from the multiprocessors of one slice (14 on Ampere,
    16 to 18 after)."""
    processors = _count(device, "device_attributes/shared/multiprocessor_count")
    gigabytes = -(-_mebibytes(device, "fb_memory_usage/total") // (1 << 30))
    slices = min(_SLICES, max(1, round(processors / (14 if architecture in (None, "Ampere") else 16))))
    instance, compute = _text(device, "gpu_instance_id"), _text(device, "compute_instance_id")
    return {"id": f"{parent}/gi{instance}/ci{compute}", "profile": f"{slices}g.{gigabytes}gb"}
