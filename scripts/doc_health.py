"""The page with every finding about a node's health, every Xid error that is known, and every metric."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doc_text import MADE, escaped

_TAKES = {"": "", "device": "the GPU", "gpus": "all GPUs of the node"}
_HEAD = """\
# Findings

Everything that `bai nodes check` can find. How it works: [Health of nodes](../health.md).
What a finding takes out gets no new sessions while it lasts.
"""
_XIDS = """
## Xid errors

NVIDIA's driver numbers its errors and writes them into the kernel's log. Those that leave a GPU unfit:

| Xid | | what to do |
|---|---|---|
"""
_APPLICATIONS = """
Numbers, names and first actions follow NVIDIA's
[Xid catalog](https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), in the form in which
[NVSentinel](https://github.com/NVIDIA/NVSentinel), NVIDIA's own health monitor, maps them. Those that are
errors of the program that ran, or that the hardware has dealt with, take nothing out:
"""
_METRICS = """
## Metrics

Gauges; `bai nodes check --format json` has them under `metrics`, `bai serve` tells them to Prometheus, with
a label `cluster` besides. Values of GPUs have the labels `node`, `gpu` (the index) and `uuid`.

| metric | |
|---|---|
"""


def health_page() -> str:
    """Tables in the order of the code, which goes from GPUs over the driver to the machine."""
    parts = [MADE, _HEAD, *_codes(), _XIDS, *_fatal(), _APPLICATIONS, *_applications(), _METRICS, *_metrics()]
    return "".join(parts)


def _codes() -> Iterator[str]:
    from providers.health.codes import CODES

    yield "\n## Codes\n\n| code | severity | means | takes out | what to do |\n|---|---|---|---|---|\n"
    for code in CODES.values():
        what, hint = escaped(_blank(code.what)), escaped(_blank(code.hint))
        yield f"| `{code.name}` | {code.severity} | {what} | {_TAKES[code.takes]} | {hint} |\n"


def _blank(template: str) -> str:
    """A format string as one reads it: `Xid … (…)`."""
    if template == "{advice}":
        return "[by number](#xid-errors)"
    return re.sub(r"\{(\w+)\}", lambda found: "N" if found[1] in ("index", "count") else "…", template)


def _fatal() -> Iterator[str]:
    from providers.health.xid import XIDS

    for number, one in sorted(XIDS.items()):
        if one.kind == "fatal":
            yield f"| {number} | {escaped(one.words)} | {escaped(one.advice)} |\n"


def _applications() -> Iterator[str]:
    from providers.health.xid import XIDS

    named = [f"{number} ({one.words})" for number, one in sorted(XIDS.items()) if one.kind == "application"]
    yield "\n" + ", ".join(named) + ". Any other number is the warning `gpu-xid-unknown`.\n"


def _metrics() -> Iterator[str]:
    from providers.health.metrics import HELP

    for name, words in HELP.items():
        yield f"| `{name}` | {escaped(words)} |\n"
