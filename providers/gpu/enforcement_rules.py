"""Whether what a node saw means that a part of a GPU holds. Pure.

A limit holds when an allocation within it succeeds and one beyond it is out of memory, however the driver's
function was found. MPS tells its clients the multiprocessors that their percentage leaves them, rounded up to
what the hardware can divide (NVIDIA's "Multi-Process Service", execution resource provisioning): these must
fit the part. HAMi-core's limit on compute is a rate over time, which a look cannot see: its memory decides.
"""

from __future__ import annotations

from providers.gpu.enforcement import DeviceSeen as Seen
from providers.gpu.enforcement import EnforcementFacts, EnforcementVerdict, TrialPart

OUT_OF_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY"""
ROUNDING = 0.05
"""Of all multiprocessors: how far those of a part may be off."""
_GIB = 1 << 30
_USERS = {
    "": "", "served": "; two users are served side by side",
    "waits": "; a second user's processes wait until the first user's have ended",
}  # fmt: skip


def judge_part(means: str, part: TrialPart, facts: EnforcementFacts) -> EnforcementVerdict:
    """`part`: the one that was tried, by `facts.gpu`."""
    if facts.problem:
        return EnforcementVerdict("untested", facts.problem)
    if facts.failed:
        return EnforcementVerdict("failed", f"a process with a part of {facts.gpu}: {facts.failed}")
    if facts.part is None or (facts.whole is None and means != "mig"):
        return EnforcementVerdict("untested", "the node said nothing of what it saw")
    wrong = _memory_problem(part, facts.part)
    if not wrong and part.instance is not None:
        wrong = _instance_problem(part, facts.part)
    if not wrong and means == "mps" and facts.whole is not None:
        wrong = _multiprocessor_problem(part, facts.part, facts.whole)
    if wrong:
        said = f"; the process said: {facts.part.said}" if facts.part.said else ""
        return EnforcementVerdict("failed", f"{wrong}{said}")
    return EnforcementVerdict("held", _seen(means, part, facts.part, facts.whole) + _USERS[facts.second_user])


def _memory_problem(part: TrialPart, seen: Seen) -> str:
    if not seen.ways:
        return "nothing was allocated"
    for way, codes in seen.ways.items():
        if codes.within:
            return (
                f"{_size(part.within)} of {_size(part.memory)} could not be allocated: error {codes.within}"
                f" ({way})"
            )
        if not codes.beyond:
            return (
                f"{_size(part.beyond)} could be allocated under a limit of {_size(part.memory)}, and"
                f" {_size(seen.shown)} were shown ({way})"
            )
        if codes.beyond != OUT_OF_MEMORY:
            return f"an allocation beyond {_size(part.memory)} ended with error {codes.beyond} ({way})"
    return ""


def _multiprocessor_problem(part: TrialPart, seen: Seen, whole: Seen) -> str:
    asked = whole.multiprocessors * part.milli / 1000
    if abs(seen.multiprocessors - asked) <= max(2.0, whole.multiprocessors * ROUNDING):
        return ""
    return (
        f"{seen.multiprocessors} of {whole.multiprocessors} multiprocessors were had with"
        f" {part.milli // 10} % of them"
    )


def _instance_problem(part: TrialPart, seen: Seen) -> str:
    assert part.instance is not None
    profile, (least, most) = part.instance.profile, part.instance.memory
    if not least <= seen.total <= most:
        return f"an instance {profile} has {_size(seen.total)}"
    expected = part.instance.multiprocessors
    if expected is not None and seen.multiprocessors != expected:
        return f"an instance {profile} has {seen.multiprocessors} multiprocessors, and not {expected}"
    return ""


def _seen(means: str, part: TrialPart, seen: Seen, whole: Seen | None) -> str:
    if part.instance is not None:
        told = "" if part.instance.multiprocessors is not None else ", which are not known of its profile"
        return (
            f"an instance {part.instance.profile} has {_size(seen.total)} and {seen.multiprocessors}"
            f" multiprocessors{told}"
        )
    memory = f"{_size(part.beyond)} were refused under a limit of {_size(part.memory)}"
    if means == "hami" or whole is None:
        return f"{memory}; its limit on compute is a rate, which was not tried"
    return f"{memory}; {seen.multiprocessors} of {whole.multiprocessors} multiprocessors were had"


def _size(value: int) -> str:
    return f"{value / _GIB:.1f} GiB" if value >= _GIB else f"{value >> 20} MiB"
