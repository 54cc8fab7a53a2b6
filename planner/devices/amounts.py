"""Dividing an integer amount over NUMA domains."""

from __future__ import annotations

from collections.abc import Sequence


def divide_in_proportion(total: int, weights: Sequence[int], room: Sequence[int]) -> list[int]:
    """Shares of `total` close to `weights`, none above `room`, at least 1 wherever a weight and room are
    positive.

    What does not fit goes where most room is left. `total` must not exceed the sum of `room`.
    """
    weighed = sum(weights)
    exact = [total * weight // weighed if weighed else 0 for weight in weights]
    wanted = [max(one, 1) if weight else one for one, weight in zip(exact, weights, strict=True)]
    if sum(wanted) > total:
        wanted = exact
    given = [min(one, free) for one, free in zip(wanted, room, strict=True)]
    left = total - sum(given)
    for at in sorted(range(len(room)), key=lambda at: (weights[at] == 0, given[at] - room[at], at)):
        more = min(left, room[at] - given[at])
        given[at] += more
        left -= more
    return given


def divide_evenly(total: int, room: Sequence[int]) -> list[int]:
    """The most even division of `total` under `room`: water filling; a remainder goes to the first
    domains.
    """
    given = [0] * len(room)
    left = total
    while left > 0:
        open_ = [at for at, free in enumerate(room) if given[at] < free]
        step = min(left // len(open_), *(room[at] - given[at] for at in open_))
        if step == 0:
            for at in open_[:left]:
                given[at] += 1
            break
        for at in open_:
            given[at] += step
        left -= step * len(open_)
    return given


def lowest_bits(mask: int, count: int) -> int:
    """The `count` lowest set bits."""
    taken = 0
    for _ in range(count):
        low = mask & -mask
        taken |= low
        mask ^= low
    return taken
