"""Machines by chance, what tools print of them, and what becomes of that on its way: pasted, quoted, wrapped,
cut. What is read is held against the machine itself, which no importer has seen."""

from __future__ import annotations

import itertools
import random
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from schemas.hardware.model import Hardware

_KINDS = ("NV18", "NV12", "NV4", "PIX", "PXB", "PHB", "NODE", "SYS")
LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

"""


@dataclass(frozen=True)
class Machine:
    """`cpus`: of each NUMA node, offline ones included; `cores`: thread siblings of each core."""

    cpus: tuple[tuple[int, ...], ...]
    offline: frozenset[int]
    cores: tuple[tuple[int, ...], ...]
    gpus: tuple[int, ...]
    """The NUMA node of each."""
    nics: int
    links: dict[frozenset[str], str]
    """Of `gpu0`, `mlx5_0` and so on."""

    def online(self, node: int) -> tuple[int, ...]:
        return tuple(cpu for cpu in self.cpus[node] if cpu not in self.offline)

    def node_of(self) -> dict[int, int]:
        return {cpu: node for node, cpus in enumerate(self.cpus) for cpu in cpus}


def make_machine(chance: random.Random) -> Machine:
    """Up to 8 NUMA nodes (NPS4 of two sockets), 16 GPUs and 40 NICs; cores of one and of two threads; CPUs
    that are offline."""
    nodes, each = chance.choice([1, 2, 2, 4, 8]), chance.choice([4, 8, 16, 24])
    total = nodes * each
    kind = chance.choice(["one", "two", "mixed"])
    two = {core: kind == "two" or (kind == "mixed" and core % each < each // 2) for core in range(total)}
    numbers = itertools.count(total)
    cores = tuple((core, next(numbers)) if two[core] else (core,) for core in range(total))
    cpus = tuple(
        tuple(sorted(cpu for core in cores[node * each : (node + 1) * each] for cpu in core))
        for node in range(nodes)
    )
    everything = [cpu for own in cpus for cpu in own]
    gone = chance.sample(everything[1:], chance.choice([0, 0, 1, 3]))
    gpus = chance.choice([0, 1, 2, 4, 8, 8, 16])
    nics = chance.choice([0, 1, 2, 10, 40]) if gpus else 0
    names = [*(f"gpu{n}" for n in range(gpus)), *(f"mlx5_{n}" for n in range(nics))]
    links = {frozenset(pair): chance.choice(_KINDS) for pair in itertools.combinations(names, 2)}
    near = tuple(n * nodes // gpus for n in range(gpus))
    return Machine(cpus, frozenset(gone), cores, near, nics, links)


def ranges(cpus: tuple[int, ...]) -> str:
    """`0-3,8`, as the kernel writes a list."""
    runs = [
        [at for _, at in run] for _, run in itertools.groupby(enumerate(cpus), lambda each: each[1] - each[0])
    ]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def topo(made: Machine) -> str:
    """`nvidia-smi topo -m`."""
    names = [*(f"GPU{n}" for n in range(len(made.gpus))), *(f"NIC{n}" for n in range(made.nics))]
    own = {name: f"gpu{name[3:]}" if name[0] == "G" else f"mlx5_{name[3:]}" for name in names}
    lines = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for a in names:
        cells = [" X " if a == b else made.links[frozenset((own[a], own[b]))] for b in names]
        node = made.gpus[int(a[3:])] if a[0] == "G" else 0
        tail = [ranges(made.online(node)), str(node), "", "N/A"] if a[0] == "G" else []
        lines.append("\t".join([a, *cells, *tail]))
    legend = "".join(f"  NIC{n}: mlx5_{n}\n" for n in range(made.nics))
    return "\n".join(lines) + "\n" + (LEGEND + legend if made.nics else "")


def numactl(made: Machine) -> str:
    """`numactl -H`."""
    count = len(made.cpus)
    lines = [f"available: {count} nodes (0-{count - 1})" if count > 1 else "available: 1 nodes (0)"]
    for node in range(count):
        lines.append(f"node {node} cpus: " + " ".join(map(str, made.online(node))))
        lines += [f"node {node} size: {1000 + node} MB", f"node {node} free: {500 + node} MB"]
    lines += ["node distances:", "node " + " ".join(f"{n:3}" for n in range(count))]
    lines += [f"{a:3}: " + " ".join(f"{10 if a == b else 21:3}" for b in range(count)) for a in range(count)]
    return "\n".join(lines) + "\n"


def lscpu(made: Machine) -> str:
    """`lscpu`."""
    node_of = made.node_of()
    online = tuple(sorted(set(node_of) - made.offline))
    lines = ["Architecture:        x86_64", f"CPU(s):              {len(node_of)}"]
    lines.append(f"On-line CPU(s) list: {ranges(online)}")
    if made.offline:
        lines.append(f"Off-line CPU(s) list: {ranges(tuple(sorted(made.offline)))}")
    lines.append(f"NUMA node(s):        {len(made.cpus)}")
    lines += [f"NUMA node{n} CPU(s):   {ranges(made.online(n))}" for n in range(len(made.cpus))]
    return "\n".join(lines) + "\n"


def lscpu_table(made: Machine) -> str:
    """`lscpu -e`."""
    node_of = made.node_of()
    core_of = {cpu: core for core, cpus in enumerate(made.cores) for cpu in cpus}
    lines = ["CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE"]
    for cpu in sorted(node_of):
        if cpu in made.offline:
            lines.append(f"{cpu:3}    -      -    - -                no")
        else:
            lines.append(f"{cpu:3} {node_of[cpu]:4}      0 {core_of[cpu]:4} 0:0:0:0          yes")
    return "\n".join(lines) + "\n"


TOOLS: dict[str, Callable[[Machine], str]] = {
    "nvidia-smi topo -m": topo, "numactl -H": numactl, "lscpu": lscpu, "lscpu -e": lscpu_table,
}  # fmt: skip


def _each_line(mark: str) -> Callable[[str, random.Random], str]:
    return lambda text, chance: "".join(mark + line for line in text.splitlines(keepends=True))


def _hard_wrap(text: str, chance: random.Random) -> str:
    width = chance.choice([60, 72, 78, 80, 100, 132])
    return "".join(
        "\n".join(line[at : at + width] for at in range(0, max(len(line), 1), width)) + "\n"
        for line in text.expandtabs(8).splitlines()
    )


def _soft_wrap(text: str, chance: random.Random) -> str:
    width = chance.choice([60, 72, 78, 80, 100, 132])
    return "\n".join("\n".join(textwrap.wrap(line, width) or [""]) for line in text.splitlines()) + "\n"


def _without_a_line(text: str, chance: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    del lines[chance.randrange(len(lines))]
    return "".join(lines)


KEEPING: dict[str, Callable[[str, random.Random], str]] = {
    "spaces": lambda text, chance: text.expandtabs(8),
    "doubled tabs": lambda text, chance: text.replace("\t", "\t\t"),
    "CRLF": lambda text, chance: text.replace("\n", "\r\n"),
    "quoted": _each_line("> "),
    "a comment": _each_line("# "),
    "indented": _each_line("    "),
    "colours": lambda text, chance: re.sub(r"^(\S+)", "\x1b[1m\\1\x1b[0m", text, count=1),
    "blanks at the end": lambda text, chance: text.replace("\n", "   \n"),
    "prose before": lambda text, chance: f"Here is what the machine says today:\n\n{text}",
}
"""Ways on which nothing is lost."""
LOSING: dict[str, Callable[[str, random.Random], str]] = {
    "hard wraps": _hard_wrap,
    "wraps between words": _soft_wrap,
    "cut": lambda text, chance: text[: chance.randrange(len(text))],
    "a line lost": _without_a_line,
}
"""Ways on which something may be lost; what is read all the same must be so."""


@dataclass(frozen=True)
class Captured:
    """Texts as they arrive, and how they came about."""

    machine: Machine
    tools: tuple[str, ...]
    ways: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing was lost on the way."""
        return not set(self.ways) & LOSING.keys()


def make_captured(chance: random.Random) -> Captured:
    """One to four tools of one machine, in one file or several, after up to three mutations."""
    made = make_machine(chance)
    able = [name for name in TOOLS if made.gpus or name != "nvidia-smi topo -m"]
    tools = tuple(chance.sample(able, chance.randint(1, len(able))))
    texts = [TOOLS[name](made) for name in tools]
    if chance.random() < 0.5:
        with_prompts = chance.random() < 0.5
        texts = [
            "\n".join(
                f"$ {name}\n{text}" if with_prompts else text for name, text in zip(tools, texts, strict=True)
            )
        ]
    ways = tuple(chance.sample(sorted(KEEPING), chance.randint(0, 2)))
    if chance.random() < 0.4:
        ways = (chance.choice(sorted(LOSING)), *ways)
    for way in ways:
        texts = [(KEEPING | LOSING)[way](text, chance) for text in texts]
    return Captured(made, tools, ways, tuple(texts))


def untruths(found: Hardware, captured: Captured) -> list[str]:
    """What was read and is not so; of captures on whose way nothing was lost, also what was not read."""
    made = captured.machine
    wrong = []
    node_of = made.node_of()
    told_alone = any(words.startswith("NUMA nodes: lscpu names none") for words in found.unknown)
    read = {cpu: node.id for node in found.numa_nodes for cpu in node.cpus}
    wrong += [
        f"CPU {cpu} is of node {node_of.get(cpu)}, not {node}"
        for cpu, node in read.items()
        if node_of.get(cpu) != node and not told_alone
    ]
    wrong += [f"CPU {cpu} is not offline" for cpu in found.offline_cpus if cpu not in made.offline]
    wrong += [f"CPU {cpu} is offline" for cpu in read if cpu in made.offline]
    wrong += [
        f"node {n.id} has {n.memory}" for n in found.numa_nodes if n.memory not in (0, (1000 + n.id) << 20)
    ]
    links = {
        frozenset((one.a, one.b)): f"NV{one.count}" if one.kind == "NV" else one.kind for one in found.links
    }
    wrong += [
        f"{sorted(pair)} is {kind}" for pair, kind in links.items() if made.links.get(pair, kind) != kind
    ]
    wrong += [
        f"gpu {gpu.index} is near {gpu.numa_node}" for gpu in found.gpus
        if gpu.numa_node not in (None, made.gpus[gpu.index])
    ]  # fmt: skip
    wrong += [
        f"{core} are no siblings"
        for core in found.siblings
        if len(core) > 1 and not any(set(core) <= set(c) for c in made.cores)
    ]
    if captured.whole:
        asked = set(captured.tools)
        if asked - {"nvidia-smi topo -m"}:
            missing = set(node_of) - made.offline - read.keys()
            wrong += [f"CPUs {sorted(missing)} were not read"] if missing else []
        if "nvidia-smi topo -m" in asked and links.keys() != made.links.keys():
            wrong.append(f"{len(made.links)} links, and {len(links)} were read")
    return wrong
