"""The probe on other machines: the collector travels with the command that runs it, and leaves no trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from providers.machines.base import Machine
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.node import MachineRefused

if TYPE_CHECKING:
    from schemas.hardware.model import Hardware

AT_ONCE = 32
"""Most machines that are probed at the same time."""
SECONDS = 60.0
"""For one machine: a driver that wakes many GPUs takes its time."""
_RUN = """
import os, runpy, sys
file = os.memfd_create("probe")
data = sys.stdin.buffer.read()
while data:
    data = data[os.write(file, data):]
sys.argv = ["probe"]
runpy.run_path("/proc/self/fd/%d" % file, run_name="__main__")
"""
"""Reads the collector from standard input into memory: no file is written."""


def probe(machine: Machine) -> Hardware:
    """What a machine is. Raises ProviderUnavailable when it cannot be reached, MachineRefused when it has no
    Python 3.8 or newer or the collector fails there, CannotRead when it prints something else."""
    from providers.probe import parse
    from providers.probe.zipapp import build

    done = machine.run(["python3", "-I", "-S", "-c", _RUN], stdin=build(), timeout=SECONDS)
    if done.code == 127:
        hint = "install python3 there (3.8 or newer), or describe the node with `hardwareFrom`"
        raise MachineRefused(
            node=machine.name, what="to be probed", why="python3 is not installed there", hint=hint
        )
    if done.code:
        lines = done.err.decode(errors="replace").strip().splitlines()
        why = lines[-1] if lines else f"exit code {done.code}"
        raise MachineRefused(node=machine.name, what="to be probed", why=why)
    return parse(done.out, source=f"the probe on {machine.name}")


def probe_all(
    machines: Mapping[str, Callable[[], Machine]],
) -> tuple[dict[str, Hardware], dict[str, str]]:
    """Node → what it is, and node → why it could not be probed; all at the same time. Never raises."""
    from providers.probe.zipapp import build

    if not machines:
        return {}, {}
    build()  # once, not by every thread
    with ThreadPoolExecutor(min(AT_ONCE, len(machines)), "probe") as pool:
        answers = dict(zip(machines, pool.map(_probed, machines.values()), strict=True))
    found = {node: answer for node, answer in answers.items() if not isinstance(answer, str)}
    return found, {node: answer for node, answer in answers.items() if isinstance(answer, str)}


def _probed(machine: Callable[[], Machine]) -> Hardware | str:
    try:
        return probe(machine())
    except BaiError as error:
        return error.message + (f" ({error.hint})" if error.hint else "")
