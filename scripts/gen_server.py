"""What is generated from the server: docs/openapi.json, and deploy/grafana/bai.json.

`--check` says what is stale instead of writing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bai.web.panel.numbers.pictures import PICTURES

ROOT = Path(__file__).resolve().parent.parent
WHERE = 'cluster=~"$cluster"'
HEIGHT, WIDTH = 7, 8


@dataclass(frozen=True)
class Panel:
    """One picture. `queries`: legend and expression; `unit` as Grafana names it."""

    title: str
    about: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"


def _picture(key: str, *queries: tuple[str, str]) -> Panel:
    """One of those that the panel draws, too."""
    [found] = (each for each in PICTURES if each.key == key)
    return Panel(found.title, found.about, queries, _UNITS[found.unit])


_UNITS: Mapping[str, str] = {"%": "percentunit", "s": "s", "": "short"}
GPUS = 'slot=~".+\\\\.device|.+\\\\.shares"'
GROUP = f'{WHERE},group=~"$group"'
ROWS: Mapping[str, tuple[Panel, ...]] = {
    "Clusters": (
        _picture("sessions", ("{{phase}}", f"sum by (phase) (bai_sessions{{{WHERE}}})")),
        _picture(
            "utilisation",
            *(
                (
                    f"{name}{said} {{{{group}}}}",
                    f"sum by (group) ({figure}{{{GROUP},{slot}}})"
                    f" / sum by (group) (bai_capacity{{{GROUP},{slot}}})",
                )
                for name, slot in (("GPUs", GPUS), ("cores", 'slot="cpu"'), ("memory", 'slot="mem"'))
                for figure, said in (("bai_allocated", ""), ("bai_held", " held"))
            ),
        ),
        _picture(
            "used",
            (
                "{{slot}} {{group}}",
                f"sum by (group, slot) (bai_used{{{GROUP}}})"
                f" / (sum by (group, slot) (bai_measured{{{GROUP}}}) > 0)",
            ),
        ),
        _picture("running", ("{{group}}", f"bai_sessions_running{{{GROUP}}}")),
        _picture("fits", ("{{group}} {{size}}", f"bai_fits{{{GROUP}}}")),
        _picture("numa", ("{{numaNodes}}", f"sum by (numaNodes) (bai_sessions_by_numa_nodes{{{WHERE}}})")),
        _picture("spread", ("{{nodes}}", f"sum by (nodes) (bai_sessions_by_nodes{{{WHERE}}})")),
        _picture(
            "wrong",
            ("nodes {{cluster}}", f"bai_nodes_unreached{{{WHERE}}}"),
            ("other than recorded", f"sum(bai_drifts{{{WHERE}}})"),
        ),
        Panel(
            "Commit in force",
            "By cluster.",
            (("{{cluster}} {{commit}}", f"bai_commit_info{{{WHERE}}}"),),
            kind="table",
        ),
    ),
    "Queue": (
        _picture("queue", ("{{group}}", f"bai_queue_length{{{GROUP}}}")),
        _picture("reasons", ("{{reason}}", f"sum by (reason) (bai_queue_reasons{{{GROUP}}})")),
        _picture(
            "waits",
            ("{{group}} {{reason}}", f"max by (group, reason) (bai_queue_oldest_seconds{{{GROUP}}})"),
        ),
        Panel(
            "Time to be placed",
            "Of who was placed.",
            tuple(
                (
                    f"{name} {{{{group}}}}",
                    f"histogram_quantile({value}, sum by (group, le)"
                    f" (rate(bai_queue_wait_seconds_bucket{{{GROUP}}}[1h])))",
                )
                for name, value in (("half within", 0.5), ("nine of ten within", 0.9))
            ),
            "s",
        ),
    ),
    "Loop": (
        Panel(
            "Since the last pass",
            "Of the replica that leads.",
            (("{{cluster}}", f"min by (cluster) (bai_loop_lag_seconds{{{WHERE}}} and bai_loop_leads>0)"),),
            "s",
        ),
        Panel(
            "Time of stages",
            "Nine of ten take no longer.",
            tuple(
                (
                    stage,
                    f"histogram_quantile(0.9, sum by (le)"
                    f" (rate(bai_{stage}_seconds_bucket{{{WHERE}}}[15m])))",
                )
                for stage in ("pass", "observe", "plan", "apply")
            ),
            "s",
        ),
        Panel(
            "Actions",
            "What applies did.",
            (
                (
                    "{{verb}} {{outcome}}",
                    f"sum by (verb, outcome) (increase(bai_actions_total{{{WHERE}}}[5m]))",
                ),
            ),
        ),
        Panel(
            "Wrong",
            "Passes that found something wrong; errors of nodes and engines.",
            (
                ("passes", f"sum(increase(bai_passes_failed_total{{{WHERE}}}[5m]))"),
                ("{{operation}}", f"sum by (operation) (increase(bai_provider_errors_total{{{WHERE}}}[5m]))"),
            ),
        ),
        Panel(
            "Drift found",
            "What was found to be other than recorded.",
            (("found", f"sum(increase(bai_drifts_found_total{{{WHERE}}}[5m]))"),),
        ),
        Panel(
            "Held back by policies",
            "Reasons for which guards hold changes back.",
            (("{{cluster}}", f"bai_policy_violations{{{WHERE}}}"),),
        ),
        Panel(
            "Leads, well, alive",
            "Replicas; whether the last pass was good; silence at work.",
            (
                ("leads {{cluster}}", f"max by (cluster) (bai_loop_leads{{{WHERE}}})"),
                ("good {{cluster}}", f"min by (cluster) (bai_loop_good{{{WHERE}}})"),
                ("silent {{cluster}}", f"max by (cluster) (bai_loop_silent_seconds{{{WHERE}}})"),
            ),
        ),
        Panel(
            "Requests",
            "By route and status.",
            (("{{route}} {{status}}", "sum by (route, status) (rate(bai_http_request_seconds_count[5m]))"),),
            "reqps",
        ),
    ),
}


def dashboard() -> str:
    """Grafana's dashboard as JSON."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row, inside in ROWS.items():
        panels.append(
            _at({"type": "row", "title": row, "collapsed": False, "panels": []}, 0, top, 24, 1, panels)
        )
        top += 1
        for number, panel in enumerate(inside):
            left, down = number % 3 * WIDTH, number // 3 * HEIGHT
            panels.append(_at(_panel(panel), left, top + down, WIDTH, HEIGHT, panels))
        top += -(-len(inside) // 3) * HEIGHT
    return _json(
        {
            "title": "bai",
            "uid": "bai",
            "tags": ["bai", "gpu"],
            "schemaVersion": 39,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "templating": {
                "list": [
                    _source(),
                    _variable("cluster", "bai_loop_leads"),
                    _variable("group", "bai_queue_length"),
                ]
            },
            "panels": panels,
        }
    )


def _at(
    panel: dict[str, Any], x: int, y: int, w: int, h: int, before: list[dict[str, Any]]
) -> dict[str, Any]:
    return {"id": len(before) + 1, "gridPos": {"x": x, "y": y, "w": w, "h": h}, **panel}


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + number),
            "expr": expression,
            "legendFormat": legend,
            "instant": panel.kind == "table",
        }
        for number, (legend, expression) in enumerate(panel.queries)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _variable(name: str, metric: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": f"label_values({metric}, {name})",
        "includeAll": True,
        "multi": True,
        "refresh": 2,
        "current": {"text": "All", "value": "$__all"},
    }


def openapi() -> str:
    """The API as OpenAPI 3.1."""
    from bai.web.app import create_app
    from bai.web.auth.roles import StaticAccess
    from bai.web.cluster_loops import ClusterLoops

    return _json(create_app(ClusterLoops(), StaticAccess()).openapi())


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


MADE: Mapping[str, Callable[[], str]] = {"docs/openapi.json": openapi, "deploy/grafana/bai.json": dashboard}


def stale() -> list[str]:
    """The files that are not what they should be."""
    return [
        name
        for name, make in MADE.items()
        if not (ROOT / name).exists() or json.loads((ROOT / name).read_text()) != json.loads(make())
    ]


def main(arguments: list[str]) -> int:
    sys.path.insert(0, str(ROOT))
    if "--check" in arguments:
        old = stale()
        print(
            f"stale: {', '.join(old)}: run `make generate`" if old else "description and dashboard are fresh"
        )
        return 1 if old else 0
    for name, make in MADE.items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
