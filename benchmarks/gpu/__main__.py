"""What parts of a GPU really are, on a machine with an NVIDIA GPU:

    python -m benchmarks.gpu [--shares 0.5 0.3] [--seconds 20] [--torch] [--json result.json]
    python -m benchmarks.gpu --selftest [--hami /path/of/libvgpu.so]

Checks the probe against nvidia-smi; runs one load without limits, then in a session that has the whole GPU,
then one session per share under MPS at the same time, and compares memory, throughput and copies from the
host with what was asked; does so on MIG instances where there are any. `--torch`: PyTorch's matrix products,
too, for which the Python that runs this must have PyTorch and be seen by sessions. `--selftest` only tries by
each means whether parts hold. No setting of the card is changed. Exit code 0 when all is within the limit, or
held; 1 when something is not, 2 without a GPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu import probe, selftest, shares
from benchmarks.results import keep
from schemas.hardware.model import Gpu

LIMIT = 0.05
"""Most that memory and throughput may be off, as a part of what was asked."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Parts of a GPU: what is asked and what is had.")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.5, 0.3])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each load multiplies")
    parser.add_argument("--torch", action="store_true", help="measure PyTorch's matrix products, too")
    parser.add_argument("--selftest", action="store_true", help="only try whether parts hold")
    parser.add_argument("--hami", default="", help="where libvgpu.so is, with --selftest")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    smi = probe.listed()
    if not smi:
        print("There is no NVIDIA GPU on this machine (nvidia-smi lists none): nothing is measured.")
        return 2
    if chosen.selftest:
        found = selftest.tried(chosen.hami)
        selftest.show(found)
        keep({"version": "bai.benchmark.gpu-selftest/v1", "gpus": smi, "means": found}, chosen.json)
        return 0 if selftest.good(found) else 1
    if not 0 < sum(chosen.shares) <= 1:
        parser.error("the shares must fit on one GPU")
    result = measured(smi, chosen.shares, chosen.seconds, torch=chosen.torch)
    show(result)
    keep(result, chosen.json)
    return 0 if within(result) else 1


def measured(
    smi: list[dict[str, str]], asked: list[float], seconds: float, *, torch: bool = False
) -> dict[str, Any]:
    """Everything that this machine can be measured for."""
    from providers.probe import probe_local

    hardware = probe_local()
    gpus = tuple(gpu for gpu in hardware.gpus if gpu.slot == "cuda")
    result: dict[str, Any] = {
        "version": "bai.benchmark.gpu/v1",
        "gpus": smi,
        "driver": hardware.software.nvidia_driver,
        "probe": probe.differences(smi, gpus),
        "limit": LIMIT,
    }
    whole = next((gpu for gpu in gpus if gpu.mig != "enabled"), None)
    split = next((gpu for gpu in gpus if gpu.mig == "enabled" and gpu.mig_devices), None)
    missed: dict[str, str] = {}
    if whole is not None:
        try:
            result |= _whole(whole, asked, seconds, shares.CUDA)
        except shares.NotMeasured as error:
            missed["mps"] = str(error)
        try:
            if torch:
                result["torch"] = _whole(whole, asked, seconds, shares.TORCH)
        except shares.NotMeasured as error:
            missed["torch"] = str(error)
    if split is not None:
        try:
            result["mig"] = _mig(split, seconds)
        except shares.NotMeasured as error:
            missed["mig"] = str(error)
    result["notMeasured"] = missed
    return result


def _whole(gpu: Gpu, asked: list[float], seconds: float, load: shares.Load) -> dict[str, Any]:
    """A GPU that is not split: the bare machine (`alone`), what a session with all of it has of that
    (`session`), and what parts have under MPS (`mps`)."""
    alone = shares.alone(gpu.id, seconds, load)
    with tempfile.TemporaryDirectory(prefix="bai-gpu-") as folder:
        got = shares.together(Path(folder), "none", [shares.WHOLE], seconds, load)["whole"]
    session = {name: round(got[name] / alone[name], 4) for name in ("memory", "rate", "copy") if name in got}
    parts = shares.fractions(gpu, asked)
    with tempfile.TemporaryDirectory(prefix="bai-gpu-") as folder:
        shared = shares.together(Path(folder), "mps", parts, seconds, load)
    return {"alone": alone, "session": session, "mps": list(shares.compared(parts, shared, alone))}


def _mig(gpu: Gpu, seconds: float) -> list[dict[str, Any]]:
    """There is no whole GPU to compare with: parts of compute are those of all instances together."""
    slices = sum(int(device.profile.partition("g.")[0]) for device in gpu.mig_devices)
    parts = shares.instances(gpu, slices)
    with tempfile.TemporaryDirectory(prefix="bai-gpu-") as folder:
        got = shares.together(Path(folder), "none", parts, seconds)
    return list(shares.compared(parts, got, {"rate": sum(each["rate"] for each in got.values())}))


def within(result: dict[str, Any]) -> bool:
    """MIG's memory is less than its profile's name says, by what the hardware keeps: its compute counts. Of
    PyTorch's parts only what lacks counts: matrix products of the whole GPU are held back by its power."""
    ratios = [line["computeRatio"] for part in ("mps", "mig") for line in result.get(part, ())]
    ratios += [line["memoryRatio"] for line in result.get("mps", ())]
    ratios += result.get("session", {}).values()
    torch = result.get("torch", {})
    ratios += [min(line["computeRatio"], 1.0) for line in torch.get("mps", ())]
    ratios += torch.get("session", {}).values()
    clean = not result["probe"] and not result["notMeasured"]
    return clean and all(abs(ratio - 1) <= LIMIT for ratio in ratios)


def show(result: dict[str, Any]) -> None:
    """For a person."""
    for line in result["probe"]:
        print(f"probe: {line}")
    if not result["probe"]:
        print(f"probe: agrees with nvidia-smi on {len(result['gpus'])} GPU(s)")
    _show_load("", result)
    if torch := result.get("torch"):
        print(f"PyTorch on the bare machine: {torch['alone']['rate'] / 1e12:.0f} TFLOP/s")
        _show_load("PyTorch, ", torch)
    for means, why in result["notMeasured"].items():
        print(f"{means}: not measured: {why}")
    print("within" if within(result) else "not within", f"{LIMIT:.0%} of what was asked")


def _show_load(whose: str, found: dict[str, Any]) -> None:
    if session := found.get("session"):
        parts = ", ".join(f"{name} {ratio - 1:+.1%}" for name, ratio in session.items())
        print(f"{whose}session with the whole GPU against the bare machine: {parts}")
    for means in ("mps", "mig"):
        for line in found.get(means, ()):
            memory = ""
            if "gotMemory" in line:
                got, asked = line["gotMemory"] / 2**30, line["askedMemory"] / 2**30
                memory = f"memory {got:.2f} of {asked:.2f} GiB asked ({line['memoryRatio'] - 1:+.1%}), "
            print(
                f"{whose}{means} {line['session']}: {memory}throughput {line['gotCompute']:.3f} of "
                f"{line['askedCompute']:.3f} asked ({line['computeRatio'] - 1:+.1%}), "
                f"{line['multiprocessors']} multiprocessors"
            )


if __name__ == "__main__":
    sys.exit(main())
