"""Checks an outcome against its snapshot from first principles: sets of CPUs, sums of bytes and
milli-devices, quotas added up again."""

from __future__ import annotations

from collections import Counter, defaultdict

from planner.model.slots import PAGES
from planner.model.types import KernelPlacement, NodeInfo, Outcome, QuotaLimit, SessionRequest, Snapshot


def audit(snapshot: Snapshot, outcome: Outcome) -> None:
    """Fails with an assertion when anything was given twice, left out, split or passed a limit."""
    requests = {one.id: one for one in snapshot.pending}
    placed = {one.session: one for one in outcome.placements}
    waits = {one.session: one for one in outcome.waits}
    assert len(placed) == len(outcome.placements) and len(waits) == len(outcome.waits)
    assert placed.keys() | waits.keys() == requests.keys() and not placed.keys() & waits.keys()
    assert all(wait.reasons and all(reason.message for reason in wait.reasons) for wait in outcome.waits)
    nodes = {one.name: one for one in snapshot.nodes}
    by_node: dict[str, list[KernelPlacement]] = defaultdict(list)
    gone = _evictions(snapshot, outcome, placed.keys())
    for running in snapshot.running:
        for kernel in running.placement.kernels if running.request.id not in gone else ():
            by_node[kernel.node].append(kernel)
    for name, placement in placed.items():
        request = requests[name]
        assert placement.choice is not None and placement.choice.score
        assert [one.kernel for one in placement.kernels] == [one.name for one in request.kernels]
        used = [one.node for one in placement.kernels]
        assert len(set(used)) == (len(used) if request.multi_node else 1)
        for kernel, wanted in zip(placement.kernels, request.kernels, strict=True):
            assert nodes[kernel.node].state == "active" and nodes[kernel.node].group == request.group
            _gives(snapshot, nodes[kernel.node], request, kernel, dict(wanted.slots))
            by_node[kernel.node].append(kernel)
    for name, kernels in by_node.items():
        _node(nodes[name], kernels)
    _quotas(snapshot, placed.keys(), gone)
    _reservations(snapshot, outcome)


def _evictions(snapshot: Snapshot, outcome: Outcome, placed: object) -> set[str]:
    """Only preemptible sessions of strictly lower priority that ran long enough go, for a placed one."""
    running = {one.request.id: one for one in snapshot.running}
    requests = {one.id: one for one in snapshot.pending}
    groups = {one.name: one for one in snapshot.groups}
    assert len({one.session for one in outcome.evictions}) == len(outcome.evictions)
    for one in outcome.evictions:
        victim, by, rule = running[one.session], requests[one.by], groups[one.group].preemption
        assert rule is not None and one.by in placed and one.why  # type: ignore[operator]
        assert victim.request.preemptible and victim.request.priority < by.priority
        assert victim.request.group == by.group == one.group and one.session not in by.depends_on
        assert victim.started is None or snapshot.now - victim.started >= rule.minimum_run
    return {one.session for one in outcome.evictions}


def _reservations(snapshot: Snapshot, outcome: Outcome) -> None:
    """Nobody starts on a node kept for others unless over before."""
    requests = {one.id: one for one in snapshot.pending}
    for placement in outcome.placements:
        request = requests[placement.session]
        ends = float("inf") if request.timeout is None else snapshot.now + request.timeout
        for kept in next(one for one in snapshot.groups if one.name == request.group).reservations:
            if request.project not in kept.projects and snapshot.now < kept.ends and ends > kept.starts:
                assert not {kernel.node for kernel in placement.kernels} & kept.nodes


def _gives(
    snapshot: Snapshot,
    node: NodeInfo,
    request: SessionRequest,
    kernel: KernelPlacement,
    wanted: dict[str, int],
) -> None:
    """The kernel got at least what it asked for, and no more than rounding explains."""
    group = next(one for one in snapshot.groups if one.name == request.group)
    threads = {cpu: set(core) for core in node.hardware.siblings for cpu in core}
    if request.exclusive_cpus:
        cores = {frozenset(threads.get(cpu, {cpu})) for cpu in kernel.cpus}
        assert 1000 * len(cores) == -(-wanted.get("cpu", 0) // 1000) * 1000 == kernel.cpu_milli
        online = {cpu for one in node.hardware.numa_nodes for cpu in one.cpus}
        online -= set(node.hardware.offline_cpus)
        assert {cpu for core in cores for cpu in core} & online == set(kernel.cpus)
    else:
        assert kernel.cpus == () and kernel.cpu_milli == wanted.get("cpu", 0)
    assert kernel.memory == wanted.get("mem", 0) == sum(part.memory for part in kernel.parts)
    assert {part.node for part in kernel.parts if part.memory} <= set(kernel.memory_nodes)
    for slot, page in PAGES.items():
        grants = [one for one in kernel.hugepages if one.slot == slot]
        assert sum(one.bytes for one in grants) == -(-wanted.get(slot, 0) // page) * page
        assert all(one.bytes and one.bytes % page == 0 for one in grants)
    assert sum(one.slot == "cuda.device" for one in kernel.devices) == wanted.get("cuda.device", 0)
    given = sum(one.milli for one in kernel.devices if one.slot == "cuda.shares")
    rule = group.fractional
    assert given >= wanted.get("cuda.shares", 0) / rule.shares_per_device > given - rule.quantum or given == 0
    assert len({one.id for one in kernel.devices}) == len(kernel.devices)


def _node(node: NodeInfo, kernels: list[KernelPlacement]) -> None:
    hardware = node.hardware
    cpus = Counter(cpu for kernel in kernels for cpu in kernel.cpus)
    assert all(count == 1 for count in cpus.values())
    forbidden = {*node.reserved_cpus, *hardware.offline_cpus, *hardware.isolated_cpus}
    assert not forbidden & cpus.keys()
    milli = Counter[str]()
    for kernel in kernels:
        for grant in kernel.devices:
            milli[grant.id] += grant.milli
    assert all(amount <= 1000 for amount in milli.values())
    bad = node.unhealthy | {gpu.id for gpu in hardware.gpus if not gpu.healthy}
    assert not bad & milli.keys()
    memory, load = Counter[int](), Counter[int]()
    for kernel in kernels:
        for part in kernel.parts:
            memory[part.node] += part.memory
            load[part.node] += part.cpu_milli
    pages = Counter[tuple[str, int | None]]()
    for kernel in kernels:
        for one in kernel.hugepages:
            pages[one.slot, one.node] += one.bytes
    for numa in hardware.numa_nodes:
        own = numa.memory - sum(numa.hugepages.values())
        assert memory[numa.id] <= (own if numa.cpus or numa.kind == "dram" else 0)
        for size in ("2Mi", "1Gi"):
            assert pages.pop((f"hugepages-{size}", numa.id), 0) <= dict(numa.hugepages).get(size, 0)
        assert load[numa.id] <= 1000 * len(numa.cpus)
    assert not pages
    assert sum(memory.values()) <= max(
        0, sum(one.memory for one in hardware.numa_nodes) - node.reserved_memory
    )


def _quotas(snapshot: Snapshot, placed: set[str] | object, gone: set[str]) -> None:
    holding = [one.request for one in snapshot.running if one.request.id not in gone]
    before = len(holding)
    holding += [one for one in snapshot.pending if one.id in placed]  # type: ignore[operator]
    for quota in snapshot.quotas:
        of = [
            one
            for one in holding
            if getattr(one, quota.subject_kind) == quota.subject and quota.group in (None, one.group)
        ]
        new = [one for one in of if one in holding[before:]]
        if not new:
            continue
        if quota.concurrent is not None:
            assert len(of) <= quota.concurrent
        for slot, limit in quota.slots.items():
            if not any(kernel.slots.get(slot) for one in new for kernel in one.kernels):
                continue
            used = _used(of, slot)
            if quota.cohort is None:
                assert used <= limit
                continue
            if quota.borrowing is not None:
                assert used <= limit + quota.borrowing.get(slot, 0)
            cohort = [one for one in snapshot.quotas if _lends(one, quota) and slot in one.slots]
            held = sum(_used([x for x in holding if _counts(one, x)], slot) for one in cohort)
            assert held <= sum(one.slots[slot] for one in cohort)


def _used(sessions: list[SessionRequest], slot: str) -> int:
    return sum(kernel.slots.get(slot, 0) for one in sessions for kernel in one.kernels)


def _counts(quota: QuotaLimit, session: SessionRequest) -> bool:
    return getattr(session, quota.subject_kind) == quota.subject and quota.group in (None, session.group)


def _lends(one: QuotaLimit, other: QuotaLimit) -> bool:
    return (one.cohort, one.subject_kind, one.group) == (other.cohort, other.subject_kind, other.group)
