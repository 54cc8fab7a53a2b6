"""Captures made to be expensive are answered: each in a process that has 4 s of processor time and 768
megabytes, where an honest one takes a fraction of a second."""

from __future__ import annotations

import contextlib
import resource
import signal
import tarfile
from collections.abc import Callable

import pytest

from schemas.hardware.importers import UnreadableCapture, import_captures
from tests.harness.clean_forks import FORKS

SECONDS = 4
MEMORY = 768 << 20


def matrix(gpus: int, nics: int) -> str:
    """`nvidia-smi topo -m` of a machine, each pair linked."""
    names = [f"GPU{n}" for n in range(gpus)] + [f"NIC{n}" for n in range(nics)]
    rows = ["\t".join([name, *("X" if name == other else "SYS" for other in names)]) for name in names]
    legend = "".join(f"  NIC{n}: mlx5_{n}\n" for n in range(nics))
    return "\n".join(["\t" + "\t".join([*names, "CPU Affinity"]), *rows, "", "NIC Legend:", "", legend])


def tar(count: int) -> bytes:
    """So many empty files. Their headers differ only in digits, and in the sum of their bytes."""
    path = "sys/devices/system/cpu/x"
    head, at = tarfile.TarInfo(f"{path}00000").tobuf(), len(path)
    rest = int(head[148:154], 8) - sum(b"00000")
    heads = []
    for number in range(count):
        digits = b"%05d" % number
        heads += [head[:at], digits, head[at + 5 : 148], b"%06o" % (rest + sum(digits)), head[154:]]
    return b"".join([*heads, bytes(2 * tarfile.BLOCKSIZE)])


def nccl(gpus: int) -> str:
    devices = "".join(
        f'<pci busid="{n >> 8:04x}:{n & 255:02x}:00.0" class="0x030200"><gpu dev="{n}"/></pci>'
        for n in range(gpus)
    )
    return f'<system><cpu numaid="0" affinity="ff" arch="x86_64">{devices}</cpu></system>'


COSTLY: dict[str, Callable[[], str | bytes]] = {
    "a header with 36 NICs and no GPU": lambda: "\t" + "\t".join(f"NIC{n}" for n in range(36)) + "\n",
    "a header of 50,000 words": lambda: "  " + "word " * 50_000 + "!",
    "a matrix of 200 devices": lambda: matrix(8, 192),
    "blank lines": lambda: "\n" * 200_000,
    "blank lines behind a prompt": lambda: "$ lscpu\n" + "\n \n" * 50_000 + "On-line CPU(s) list: 0-3\n",
    "a prompt without an end": lambda: "a@" + " " * 200_000,
    "parentheses of a prompt": lambda: "(" * 200_000,
    "processing instructions": lambda: "<?" * 200_000,
    "comments": lambda: "<!--" * 200_000,
    "document types": lambda: "<!DOCTYPE a[]]]" * 20_000,
    "document types without an end": lambda: "<!DOCTYPE a[>" * 20_000,
    "an affinity mask of five megabytes": lambda: nccl(1).replace('"ff"', f'"{"00000001," * 500_000}1"'),
    "ranges of all CPUs": lambda: "NUMA node0 CPU(s): " + "0-65535," * 50_000 + "1\n",
    "quotes of quotes": lambda: (">" * 400 + " NUMA node0 CPU(s): 0-3\n") * 1_000,
    "outputs that take turns": lambda: "node 0 cpus: 0 1\nCPU NODE SOCKET CORE\n" * 25_000,
    "a table of a CPU": lambda: "CPU NODE SOCKET CORE\n" + "0 0 0 0\n" * 50_000,
    "a topology of 3,000 GPUs": lambda: nccl(3000),
    "a legend of 50,000 NICs": lambda: (
        "\tGPU0\nGPU0\tX\n" + "".join(f"  NIC{n}: mlx5_{n}\n" for n in range(50_000))
    ),
    "a list of 40,000 MIG devices": lambda: (
        "GPU 0: A100 (UUID: GPU-1)\n"
        + "".join(f"  MIG 1g.5gb Device 0: (UUID: MIG-{n})\n" for n in range(40_000))
    ),
    "lines wrapped at each CPU": lambda: "".join(
        f"node {node} cpus: 0\n" + "".join(f"{n}\n" for n in range(1, 65_536)) for node in range(2)
    ),
    "all CPUs of a node 15,000 times": lambda: "NUMA node0 CPU(s): 0-65535\n" * 15_000,
    "25,000 files": lambda: tar(25_000),
}


def answer(name: str) -> None:
    made = COSTLY[name]()
    data = made.encode() if isinstance(made, str) else made
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with contextlib.suppress(UnreadableCapture):
        import_captures([data])


@pytest.mark.parametrize("name", COSTLY)
def test_it_is_answered(name: str) -> None:
    child = FORKS.Process(target=answer, args=(name,))
    child.start()
    child.join()
    code = child.exitcode
    assert code != -signal.SIGKILL and code != -signal.SIGXCPU, (
        f"{SECONDS} s of processor time are not enough"
    )
    assert code == 0


def test_more_devices_than_a_machine_has_are_refused() -> None:
    with pytest.raises(UnreadableCapture, match="3000 GPUs and NICs, more than 512"):
        import_captures([nccl(3000).encode()])
