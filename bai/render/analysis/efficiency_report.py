"""What a session was given against what it used, in lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bai.render.humanize import clean, duration, iso_time, size

if TYPE_CHECKING:
    from reconciler.values.usage.efficiency import Efficiency, Ratio


def efficiency_lines(found: Efficiency, *, running: bool) -> Iterator[str]:
    """As Slurm's seff has them."""
    ended = "it goes on" if running else f"ended {iso_time(found.ended)}"
    yield _line("session", f"{clean(found.session)}, generation {found.generation}")
    yield _line("user", clean(found.user) or "none: its document names no owner")
    yield _line("started", f"{iso_time(found.began)}, {ended}, after {duration(found.ended - found.began)}")
    cores = f"{found.cores:g} {'core' if found.cores == 1 else 'cores'}"
    yield _line("CPU", _ratio_text(found.cpu, f"{cores}, which is", _time_text))
    yield _line("memory", _ratio_text(found.memory, "", lambda count: size(int(count))))
    if found.gpu is None:
        yield _line("GPU", "none was asked for")
    else:
        gpus = f"{found.gpus:g} {'GPU' if found.gpus == 1 else 'GPUs'}, measured over"
        yield _line("GPU", _ratio_text(found.gpu, gpus, _time_text))
    if found.measured_until is None:
        yield _line("measured", "never")
    else:
        missing = found.ended - found.measured_until
        late = f", {duration(missing)} before the end" if missing >= 1 and not running else ""
        yield _line("measured", f"until {iso_time(found.measured_until)}{late}")


def _time_text(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 60 else duration(seconds)


def _line(name: str, text: str) -> str:
    return f"{name:9}{text}"


def _ratio_text(ratio: Ratio, given: str, unit: Any) -> str:
    if ratio.used is None:
        return f"unknown: {ratio.why}"
    percent = "" if ratio.percent is None else f"{ratio.percent:.1f} %: "
    return " ".join(filter(None, [f"{percent}{unit(ratio.used)} of", given, unit(ratio.given)]))


def efficiency_json(found: Efficiency, *, running: bool) -> dict[str, Any]:
    """`bai.efficiency/v1`."""
    return {
        "session": found.session,
        "generation": found.generation,
        "user": found.user,
        "startedAt": iso_time(found.began),
        "endedAt": None if running else iso_time(found.ended),
        "measuredUntil": None if found.measured_until is None else iso_time(found.measured_until),
        "cores": found.cores,
        "gpus": found.gpus,
        "cpu": _ratio_json(found.cpu),
        "memory": _ratio_json(found.memory),
        "gpu": None if found.gpu is None else _ratio_json(found.gpu),
    }


def _ratio_json(ratio: Ratio) -> dict[str, Any]:
    known = ratio.used is not None
    return {
        "given": round(ratio.given, 3) if known else None,
        "used": round(ratio.used, 3) if ratio.used is not None else None,
        "percent": None if ratio.percent is None else round(ratio.percent, 2),
        "unknown": ratio.why,
    }
