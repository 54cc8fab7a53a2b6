"""`nvidia-smi -q -x` and `nvidia-smi nvlink -s`: the same facts where the library cannot be loaded here."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from providers.health.node.files import run

_SECONDS = 30.0
_ACTIONS = {
    "None": "none", "Reset": "reset", "GPU Reset": "reset", "Reboot": "reboot", "Node Reboot": "reboot",
    "Drain P2P": "drain-p2p", "Drain and Reset": "drain-and-reset",
}  # fmt: skip
_SLOWED = {
    "hw_slowdown": "hw-slowdown", "sw_thermal_slowdown": "sw-thermal", "hw_thermal_slowdown": "hw-thermal",
    "hw_power_brake_slowdown": "hw-power-brake",
}  # fmt: skip
_ADDRESS = re.compile(r"GPU\s*\d*:?\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])")


def state() -> dict[str, Any] | None:
    """The same as `nvml.state`; None where nvidia-smi is not installed. Raises NoAnswer."""
    code, text = run(["nvidia-smi", "-q", "-x"], _SECONDS)
    if code == 127:
        return None
    found = parse(text)
    if not found["devices"] and not found["problem"]:
        found["problem"] = _driver_problem(text) or f"nvidia-smi ends with {code}"
    if len(found["devices"]) > 1:
        _, links = run(["nvidia-smi", "nvlink", "-s"], _SECONDS)
        for index, count in active_links(links).items():
            if index < len(found["devices"]):
                found["devices"][index]["links"] = count
    return found


def parse(text: str) -> dict[str, Any]:
    """The output of `nvidia-smi -q -x`, with what it says about GPUs that it could not open."""
    lost = [
        {"index": -1, "pci": found.group(1), "problem": line.strip()}
        for line in text.splitlines()
        if "Unable to determine the device handle" in line and (found := _ADDRESS.search(line))
    ]
    start, end = text.find("<nvidia_smi_log>"), text.rfind("</nvidia_smi_log>")
    if start < 0 or end < 0:
        return {"driver": "", "problem": "" if lost else _driver_problem(text), "devices": lost}
    try:
        root = ElementTree.fromstring(text[start : end + len("</nvidia_smi_log>")])
    except ElementTree.ParseError as error:
        return {"driver": "", "problem": f"nvidia-smi -q -x is not XML: {error}", "devices": lost}
    devices = [_device(index, gpu) for index, gpu in enumerate(root.findall("gpu"))]
    return {"driver": _text(root, "driver_version"), "problem": "", "devices": devices + lost}


def _driver_problem(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("<")]
    return lines[0][:200] if lines else ""


def active_links(text: str) -> dict[int, int]:
    """GPU → NVLinks that are up, from `nvidia-smi nvlink -s`."""
    found: dict[int, int] = {}
    index = -1
    for line in text.splitlines():
        heading = re.match(r"GPU ([0-9]{1,9}):", line)
        if heading:
            index = int(heading.group(1))
        elif index >= 0 and re.match(r"\s*Link \d+: ", line):
            found[index] = found.get(index, 0) + ("inactive" not in line)
    return found


def _device(index: int, gpu: Element) -> dict[str, Any]:
    mode, instances = _text(gpu, "mig_mode/current_mig"), len(list(gpu.iter("mig_device")))
    recovery = _text(gpu, "gpu_recovery_action")
    required = _text(gpu, "gpu_reset_status/reset_required") == "Yes"
    return {
        "index": index,
        "uuid": _text(gpu, "uuid"),
        "pci": gpu.get("id", "") or _text(gpu, "pci/pci_bus_id"),
        "model": _text(gpu, "product_name"),
        "persistence": _enabled(gpu, "persistence_mode"),
        "recovery": "reset" if required else _ACTIONS.get(recovery, "unknown") if recovery else "",
        "fabric": _fabric(gpu),
        "mig": _enabled(gpu, "mig_mode/current_mig") if mode else None,
        "mig_pending": _enabled(gpu, "mig_mode/pending_mig"),
        "instances": instances if mode else None,
        **_memory(gpu),
        **_heat(gpu),
        "width": _number(gpu, "pci/pci_gpu_link_info/link_widths/current_link_width"),
        "width_most": _number(gpu, "pci/pci_gpu_link_info/link_widths/max_link_width"),
        "speed": _number(gpu, "pci/pci_gpu_link_info/pcie_gen/current_link_gen"),
        "speed_most": _number(gpu, "pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
        "replays": _number(gpu, "pci/replay_counter"),
    }


def _memory(gpu: Element) -> dict[str, Any]:
    return {
        "ecc": _enabled(gpu, "ecc_mode/current_ecc"),
        "ecc_pending": _enabled(gpu, "ecc_mode/pending_ecc"),
        "uncorrected": _errors(gpu, "volatile", "uncorrectable", "double_bit"),
        "uncorrected_ever": _errors(gpu, "aggregate", "uncorrectable", "double_bit"),
        "corrected": _errors(gpu, "volatile", "correctable", "single_bit"),
        "corrected_ever": _errors(gpu, "aggregate", "correctable", "single_bit"),
        "sram_threshold": _text(gpu, "ecc_errors/aggregate/sram_threshold_exceeded") == "Yes",
        "rows_uncorrected": _number(gpu, "remapped_rows/remapped_row_unc"),
        "rows_pending": _is_yes(gpu, "remapped_rows/remapped_row_pending"),
        "rows_failed": _is_yes(gpu, "remapped_rows/remapped_row_failure"),
        "retired": _number(gpu, "retired_pages/double_bit_retirement/retired_count"),
        "retirement_pending": _is_yes(gpu, "retired_pages/pending_retirement"),
    }


def _errors(gpu: Element, since: str, kind: str, old: str) -> int | None:
    """The sum over SRAM and DRAM; the one total of GPUs before Turing; None without ECC."""
    part = gpu.find(f"ecc_errors/{since}")
    if part is None:
        return None
    found = [
        _number(part, each.tag)
        for each in part
        if re.fullmatch(rf"(sram|dram)_{kind}(_parity|_secded)?", each.tag)
    ]
    known = [each for each in found if each is not None]
    return sum(known) if known else _number(part, f"{old}/total")


def _heat(gpu: Element) -> dict[str, Any]:
    reasons = gpu.find("clocks_event_reasons")
    reasons = gpu.find("clocks_throttle_reasons") if reasons is None else reasons
    slowed = None
    if reasons is not None:
        ends = {each.tag.split("_reason_")[-1] for each in reasons if (each.text or "").strip() == "Active"}
        slowed = [name for end, name in _SLOWED.items() if end in ends]
    watts = _text(gpu, "gpu_power_readings/power_draw") or _text(gpu, "power_readings/power_draw")
    drawn = re.match(r"[\d.]+", watts)
    return {
        "temperature": _number(gpu, "temperature/gpu_temp"),
        "temperature_slows": _number(gpu, "temperature/gpu_temp_slow_threshold"),
        "slowed": slowed,
        "performance": _number(gpu, "performance_state"),
        "clock": _number(gpu, "clocks/sm_clock"),
        "clock_most": _number(gpu, "max_clocks/sm_clock"),
        "watts": float(drawn.group()) if drawn else None,
    }


def _fabric(gpu: Element) -> str:
    state, status = _text(gpu, "fabric/state"), _text(gpu, "fabric/status")
    if state == "Completed" and status not in ("", "Success"):
        return f"failed: {status}"
    return state.lower()


def _text(element: Element, path: str) -> str:
    found = (element.findtext(path) or "").strip()
    return "" if found in ("N/A", "[N/A]", "Not Found") else found


def _number(element: Element, path: str) -> int | None:
    """The first whole number of a text such as `16x`, `P0`, `29 C`."""
    found = re.search(r"-?\d{1,15}", _text(element, path))
    return int(found.group()) if found else None


def _enabled(element: Element, path: str) -> bool | None:
    text = _text(element, path)
    return text == "Enabled" if text in ("Enabled", "Disabled") else None


def _is_yes(element: Element, path: str) -> bool | None:
    text = _text(element, path)
    return text == "Yes" if text in ("Yes", "No") else None
