"""Captures that were cut, doubled or scribbled over: a machine, or a reason; never a traceback."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.hardware.importers import UnreadableCapture, import_captures

DATA = Path(__file__).parents[2] / "data/topology"
SMALL = [
    "nvidia-smi-topo/v100-8gpu-hybridcube-1nic.txt",
    "nvidia-smi-topo/pcie-8gpu-allsys.txt",
    "nvidia-smi-topo/levante-a100-4gpu-2nic-8numa-topo-mp.txt",
    "numactl/esc8000a-e12-2node.txt",
    "lscpu/wrx90-lscpu-e.txt",
    "lscpu/wrx90.txt",
    "nccl-xml/azure-ncv4-topo.xml",
    "nccl-xml-rccl/topo_8p_90a.xml",
    "nvidia-smi-qx/telegraf-a100-sxm4-v12.xml",
    "hwloc-xml/cxlmem+dax.v2.xml",
    "hwloc-linux/16em64t-4s2c2t-offlines.tar.bz2",
]
CAPTURES = [(DATA / name).read_bytes() for name in SMALL]
SCRIBBLE = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([b"-1", b"99999999999999999999", b"0x", b"N/A", b"", b'"', b"<", b"\t", b"\n"]),
    st.sampled_from([b"0-70000", b"/", b"\xff"]),
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = draw(st.sampled_from(CAPTURES))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from([0, 1, 2, 5, 40, 400, len(data)]))
        if draw(st.booleans()):
            data = data[:start] + draw(SCRIBBLE) + data[start + length :]
        else:
            data = data[:start] + data[start : start + min(length, 400)] * 2 + data[start + length :]
    return data


@settings(max_examples=150, deadline=None)
@given(captures=st.lists(mutated(), min_size=1, max_size=2))
def test_any_capture_gives_a_machine_or_a_reason(captures: list[bytes]) -> None:
    with contextlib.suppress(UnreadableCapture):
        import_captures(captures)
