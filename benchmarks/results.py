"""What a benchmark finds, as JSON: on the terminal, and in a file where one is named."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path


def parser_of(name: str, about: str | None) -> argparse.ArgumentParser:
    """For `python -m benchmarks.NAME`, whose docstring is `about`; it has --json."""
    first = (about or "").split("\n", 1)[0]
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=first)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    return parser


def keep(found: object, file: Path | None) -> None:
    """Write it, where a file is named."""
    if file is not None:
        file.write_text(json.dumps(found, indent=2) + "\n")


def show(found: object, file: Path | None) -> None:
    """Print it, and keep it."""
    print(json.dumps(found, indent=2))
    keep(found, file)


def spread(samples: Sequence[float]) -> dict[str, float]:
    """Median, ends and the 90th percentile, to a thousandth."""
    ordered = sorted(samples)
    return {
        "median": round(statistics.median(ordered), 3),
        "min": round(ordered[0], 3),
        "p90": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))], 3),
        "max": round(ordered[-1], 3),
    }
