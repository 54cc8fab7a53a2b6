"""`nvidia-smi -q -x`: the GPUs themselves: model, memory, address, MIG, health, driver. Nothing about CPUs
or links."""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element

from schemas.hardware.gpu_health import HealthCounters, health_problems
from schemas.hardware.importers.facts import Facts, UnreadableCapture
from schemas.hardware.importers.safe_xml import parse_number, parse_xml
from schemas.hardware.sysfs.pci import normalize_address

_SLICES = 7


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
    return {
        "id": uuid or address,
        "index": index,
        "slot": "cuda",
        "vendor": "nvidia",
        "model": _text_at(gpu, "product_name"),
        "pci": address,
        "memory": _mebibytes(gpu, "fb_memory_usage/total"),
        "mig": mode if mode in ("enabled", "disabled") else None,
        "mig_devices": [
            _mig_fields(uuid or address, device, _text_at(gpu, "product_architecture"))
            for device in gpu.iter("mig_device")
        ],
        "healthy": not wrong,
        "health": tuple(wrong),
    }


def _text_at(element: Element, path: str) -> str | None:
    """The text at a path; None for what nvidia-smi has no value for."""
    found = (element.findtext(path) or "").strip()
    return None if found in ("", "N/A", "[N/A]", "Not Found") else found


def _count(element: Element, *paths: str) -> int:
    return sum(parse_number(_text_at(element, path)) or 0 for path in paths)


def _mebibytes(element: Element, path: str) -> int:
    found = re.match(r"(\d{1,9}) MiB", _text_at(element, path) or "")
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


def _mig_fields(parent: str, device: Element, architecture: str | None) -> dict[str, Any]:
    """The profile is not in the capture: slices follow from the multiprocessors of one slice (14 on Ampere,
    16 to 18 after)."""
    processors = _count(device, "device_attributes/shared/multiprocessor_count")
    gigabytes = -(-_mebibytes(device, "fb_memory_usage/total") // (1 << 30))
    slices = min(_SLICES, max(1, round(processors / (14 if architecture in (None, "Ampere") else 16))))
    instance, compute = _text_at(device, "gpu_instance_id"), _text_at(device, "compute_instance_id")
    return {"id": f"{parent}/gi{instance}/ci{compute}", "profile": f"{slices}g.{gigabytes}gb"}
