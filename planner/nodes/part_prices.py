"""What a partly free device is still worth: prices of the typical pieces by cutting-stock duality.

How many devices a mix of pieces needs at least is a cutting-stock problem; the dual prices of its relaxation
(Gilmore and Gomory, 1961) say what share of a device each piece really costs. A piece of 0.81 costs a whole
device when hardly anything asks for the remaining 0.19. The worth of r free milli is the most that pieces
fitting into r can be priced.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DEVICE = 1000
_TOLERANCE = 1e-9
_ROUNDS = 500


def free_part_values(pieces: Mapping[int, int]) -> Ints:
    """`worth[r]`: milli-devices that r free milli of one device are worth, for r in 0..1000.

    `pieces`: milli of one device (1..1000) → how often it is asked for.
    """
    sizes = sorted(size for size, count in pieces.items() if count > 0 and 0 < size <= DEVICE)
    if not sizes:
        return np.arange(DEVICE + 1, dtype=np.int64)
    prices = _dual_prices(sizes, [pieces[size] for size in sizes])
    values, _ = _knapsack(sizes, prices)
    found: Ints = np.rint(np.minimum(values, 1.0) * DEVICE).astype(np.int64)
    return found


def _dual_prices(sizes: list[int], counts: list[int]) -> Floats:
    """Dual prices of covering `counts` with patterns of one device each: revised simplex with patterns
    priced by a knapsack."""
    count = len(sizes)
    demand: Floats = np.array(counts, dtype=np.float64)
    basis: Floats = np.diag([float(DEVICE // size) for size in sizes])
    costs: Floats = np.ones(count)
    prices: Floats = np.asarray(np.linalg.solve(basis.T, costs), dtype=np.float64)
    for _ in range(_ROUNDS):
        column, cost = _entering_column(sizes, prices)
        if column is None:
            break
        direction = np.linalg.solve(basis, column)
        amounts = np.linalg.solve(basis, demand)
        ratios = [
            (max(amounts[at], 0.0) / direction[at], at) for at in range(count) if direction[at] > _TOLERANCE
        ]
        if not ratios:
            break
        leaving = min(ratios)[1]
        basis[:, leaving], costs[leaving] = column, cost
        prices = np.asarray(np.linalg.solve(basis.T, costs), dtype=np.float64)
    return np.maximum(prices, 0.0)


def _entering_column(sizes: list[int], prices: Floats) -> tuple[Floats | None, float]:
    """A column that lowers the number of devices: surplus of a piece with a negative price, or a better
    pattern."""
    column: Floats = np.zeros(len(sizes))
    worst = int(prices.argmin())
    if prices[worst] < -_TOLERANCE:
        column[worst] = -1.0
        return column, 0.0
    values, last = _knapsack(sizes, prices)
    if values[DEVICE] <= 1.0 + 1e-7:
        return None, 0.0
    room = DEVICE
    while room > 0:
        if last[room] < 0:
            room -= 1
            continue
        column[last[room]] += 1.0
        room -= sizes[last[room]]
    return column, 1.0


def _knapsack(sizes: list[int], prices: Floats) -> tuple[Floats, list[int]]:
    """Best price per room 0..1000 (pieces may repeat), and the piece taken last there or -1."""
    best = [0.0] * (DEVICE + 1)
    last = [-1] * (DEVICE + 1)
    priced = [
        (size, float(price), at)
        for at, (size, price) in enumerate(zip(sizes, prices, strict=True))
        if price > 0
    ]
    for room in range(1, DEVICE + 1):
        best[room] = best[room - 1]
        for size, price, at in priced:
            if size <= room and best[room - size] + price > best[room] + 1e-12:
                best[room], last[room] = best[room - size] + price, at
    return np.array(best), last
