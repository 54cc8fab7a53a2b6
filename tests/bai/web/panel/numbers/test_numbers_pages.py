"""Pages of numbers and what scripts ask for: the figures of `/metrics`, for whom they are, nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from bai.web.panel.numbers.numbers_page import numbers_page, plot_data
from bai.web.panel.pages import POLICY
from providers.fake import SimulatedLoad
from reconciler.controller.figure_recorder import FigureRecorder
from reconciler.observe.shared_usage import SharedUsage
from reconciler.values.figures.pass_figures import KINDS
from reconciler.values.figures.recorded import HOUR, MINUTE, key_of
from tests.bai.web.lab import Lab, asking, bearer
from tests.bai.web.panel.rendering import (
    LABELLED_NODE,
    SECRET,
    hostile,
    render,
    texts_of,
    two_projects,
    view_of,
)
from tests.reconciler.lab import BASE, session

HERE = "/clusters/here"
SAME = {"Sec-Fetch-Site": "same-origin"}
ADDRESSES = (
    "/numbers", "/numbers?range=6h&group=default", "/numbers?range=30d", "/numbers/data?range=6h",
    "/numbers/data?range=7d&group=default", "/numbers/showback", "/numbers/showback?by=session&month=2027-01",
    "/numbers/showback?by=user", "/numbers/showback.csv", "/numbers/showback.csv?by=session",
    "/sessions/p/own/use", "/sessions/p/own",
)  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two projects, and figures of their passes; tests leave it as it is."""
    made = Lab(tmp_path_factory.mktemp("lab"), node=LABELLED_NODE)
    made.loop.add_listener(FigureRecorder(made.loop).record)
    two_projects(made)
    made.world.clock.sleep(60)
    made.once()
    yield made
    made.close()


def visitor(lab: Lab, token: str = "viewer") -> TestClient:
    made = asking(lab.app, base_url="http://panel.test", follow_redirects=False)
    if token:
        assert made.post("/login", data={"credential": token}, headers=SAME).status_code == 303
    return made


def get(lab: Lab, address: str, token: str = "viewer", **headers: str) -> Any:
    return visitor(lab, token).get(f"{HERE}{address}", headers=headers)


def metrics(lab: Lab) -> dict[tuple[str, ...], float]:
    """Name and values of labels, without the cluster's, → value."""
    found = {}
    for line in lab.client.get("/metrics", headers=bearer("viewer")).text.splitlines():
        match = re.fullmatch(r"(bai_\w+)\{(.*)\} (\S+)", line)
        if match and match[1] in KINDS:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
            assert labels.pop("cluster") == "here" and tuple(labels) == tuple(sorted(labels))
            found[match[1], *(labels[name] for name in KINDS[match[1]].labels)] = float(match[3])
    return found


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("token", ["viewer", "ours", "operator", "admin", "operator-of-p"])
def test_who_may_look_at_the_cluster_sees_them(recorded: Lab, address: str, token: str) -> None:
    answer = get(recorded, address, token)
    assert answer.status_code == 200, answer.text
    if token in ("ours", "operator-of-p"):
        assert SECRET not in answer.text
    assert (answer.headers["content-type"].partition(";")[0]) in ("text/html", "application/json", "text/csv")
    if answer.headers["content-type"].startswith("text/html"):
        assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_stranger_is_led_to_the_login(recorded: Lab, address: str) -> None:
    answer = get(recorded, address, "")
    assert answer.status_code == 303 and answer.headers["location"].startswith("/login?next=")


def test_what_is_anothers_is_there_for_who_may_see_it(recorded: Lab) -> None:
    for address in ("/numbers/showback", "/numbers/showback.csv", "/numbers/showback.csv?by=session"):
        assert SECRET in get(recorded, address).text
    assert get(recorded, f"/sessions/{SECRET}/{SECRET}-run/use").status_code == 200
    for token in ("ours", "operator-of-p"):
        for name in (f"{SECRET}-run", "none"):
            assert get(recorded, f"/sessions/{SECRET}/{name}/use", token).status_code == 404
    assert get(recorded, "/sessions/p/none/use").status_code == 404


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/numbers?range=1y", 422),
        ("/numbers?group=none", 404),
        ("/numbers/data?range=", 422),
        ("/numbers/showback?month=2027-13", 404),
        ("/numbers/showback.csv?month=x", 404),
        ("/numbers/showback.csv?by=everything", 422),
    ],
)
def test_what_cannot_be_read_is_said(recorded: Lab, address: str, status: int) -> None:
    assert get(recorded, address).status_code == status


# --- figures


def test_the_store_has_what_metrics_tell_of_the_same_pass(recorded: Lab) -> None:
    told = metrics(recorded)
    store = recorded.workspace.store
    last = max(row.at for row in store.figures("here", MINUTE, 0.0, 1e12))
    rows = {row.group: row for row in store.figures("here", MINUTE, last, last + 1)}
    kept = {}
    for name, *labels in told:
        group = labels[0] if KINDS[name].by_group else ""
        label = labels[-1] if len(labels) > KINDS[name].by_group else ""
        kept[name, *labels] = rows[group].sums[key_of(name, label)]
    assert len(kept) == sum(len(row.sums) for row in rows.values()) > 20
    assert kept == told and ("bai_queue_oldest_seconds", "default", "no-capacity") in told


def test_a_page_shows_what_metrics_tell(recorded: Lab) -> None:
    told = metrics(recorded)
    data = get(recorded, "/numbers/data?range=6h").json()

    def last(plot: str) -> dict[str, float]:
        return {line["label"]: line["values"][-1] for line in data["plots"][plot]["lines"]}

    def of(name: str) -> dict[str, float]:
        return {key[-1]: value for key, value in told.items() if key[0] == name}

    def share(*endings: str) -> float:
        held, whole = (
            sum(value for key, value in told.items() if key[0] == name and key[2].endswith(endings))
            for name in ("bai_allocated", "bai_capacity")
        )
        return round(100 * held / whole, 3)

    assert last("queue") == of("bai_queue_length") == {"default": 2.0}
    assert last("running") == of("bai_sessions_running") == {"default": 3.0}
    assert last("reasons") == of("bai_queue_reasons")
    assert last("fits") == of("bai_fits")
    assert last("sessions") == of("bai_sessions")
    assert list(last("numa").values()) == list(of("bai_sessions_by_numa_nodes").values())
    assert list(last("spread").values()) == list(of("bai_sessions_by_nodes").values())
    assert last("utilisation") == {
        "GPUs": share(".device", ".shares"), "cores": share("cpu"), "memory": share("mem"),
    }  # fmt: skip
    assert last("waits") == of("bai_queue_oldest_seconds")
    assert "used" in data["plots"] and data["plots"]["used"]["lines"] == []


def test_data_is_small_and_known_again(recorded: Lab) -> None:
    for name in ("6h", "24h", "7d", "30d"):
        first = get(recorded, f"/numbers/data?range={name}")
        assert first.headers["vary"] == "Cookie" and "no-cache" in first.headers["cache-control"]
        data = first.json()
        assert len(data["times"]) <= 500
        for plot in data["plots"].values():
            assert all(len(line["values"]) == len(data["times"]) for line in plot["lines"])
        again = get(recorded, f"/numbers/data?range={name}", **{"If-None-Match": first.headers["etag"]})
        assert again.status_code == 304 and again.content == b""


def test_without_scripts_there_are_tables(recorded: Lab) -> None:
    page = numbers_page(recorded.hub.clusters["here"], view_of(recorded), "6h", "")
    shown = get(recorded, "/numbers?range=6h").text
    assert [plot.key for plot in page.plots] == [
        "utilisation", "running", "queue", "waits", "reasons", "fits", "sessions", "numa", "spread",
        "wrong",
    ]  # fmt: skip
    for plot in page.plots:
        assert plot.table.rows and f'<caption class="hidden">{plot.title}</caption>' in shown
    assert page.plots[0].label == "Allocated: GPUs 75 %, cores 25 %, memory 2.3 %"
    assert f'role="img" aria-label="{page.plots[0].label}"' in shown
    assert "<script" not in shown.partition("<main")[2] and 'details class="plot-table" open' in shown


def test_names_are_texts_and_only_words_of_ours_are_there(recorded: Lab) -> None:
    page = numbers_page(recorded.hub.clusters["here"], view_of(recorded), "6h", "")
    rendered = render("numbers/over_time.html", page=hostile(page))
    assert "<img" not in rendered and "<script" not in rendered and "\x1b" not in rendered
    for token in ("ours", "operator-of-p"):
        found = numbers_page(recorded.hub.clusters["here"], view_of(recorded, token), "6h", "")
        assert not [text for text in texts_of(found) if SECRET in text]


def test_a_cluster_of_which_nothing_is_known_says_so(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert get(lab, "/numbers").status_code == 503
    lab.once()
    assert "Nothing is known of this time yet" in get(lab, "/numbers").text
    lab.close()


def test_a_day_is_shown_as_it_was(tmp_path: Path) -> None:
    """Sessions come and go at known times; hours have the means of what was, minute by minute."""
    lab = Lab(tmp_path)
    lab.loop.add_listener(FigureRecorder(lab.loop).record)
    lab.write("s0", session("s0", "resources: {cpu: 1, cuda.device: 1}"))
    lab.once()
    begin = lab.world.clock.now()
    truth: dict[float, int] = {}
    for step in range(24):
        wanted = 1 + (step // 3) % 4
        for at in range(1, 4):
            name = f"s{at}"
            path = lab.folder / f"{name}.yaml"
            if at < wanted:
                lab.write(name, session(name, "resources: {cpu: 1, cuda.device: 1}"))
            elif path.exists():
                path.unlink()
        lab.once()
        lab.once()
        lab.world.clock.sleep(3540)
        lab.once()
        truth[lab.world.clock.now()] = wanted
    now = lab.world.clock.now()
    assert now - begin > 86_000
    rows = [row for row in lab.workspace.store.figures("here", MINUTE, 0.0, 1e12) if row.group]
    for moment, wanted in truth.items():
        (found,) = (row for row in rows if row.at == moment // 60 * 60)
        assert found.sums["allocated/cuda.device"] == wanted
    hours = [row for row in lab.workspace.store.figures("here", HOUR, 0.0, 1e12) if row.group]
    assert sum(hour.count for hour in hours) == len(rows)
    for hour in hours:
        parts = [row.sums["allocated/cuda.device"] for row in rows if row.at // HOUR * HOUR == hour.at]
        assert hour.mean("allocated/cuda.device") == sum(parts) / len(parts)
    data = plot_data(lab.hub.clusters["here"], "24h", "default")
    (gpus,) = (each for each in data["plots"]["utilisation"]["lines"] if each["label"] == "GPUs")
    assert {25.0, 50.0, 75.0, 100.0} <= set(gpus["values"])
    lab.close()


def test_what_is_used_is_measured_where_the_cluster_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two sessions computes: the page, the store and metrics tell the same of both."""
    said = BASE.replace("{provider: fake}", "{provider: fake, accounting: {sampleInterval: 1m}}")
    monkeypatch.setattr("tests.bai.web.lab.BASE", said)
    lab = Lab(tmp_path)
    lab.loop.add_listener(FigureRecorder(lab.loop).record)
    for name in ("a", "b"):
        lab.write(name, session(name, "resources: {cpu: 2, memory: 1GiB, cuda.device: 1}"))
    lab.once()
    lab.once()
    for kernel in lab.world.kernels:
        busy = kernel.startswith("a-")
        lab.world.use(kernel, SimulatedLoad(cores=1.5 if busy else 0.5, gpu=80 if busy else 0))
    for _ in range(10):
        lab.world.clock.sleep(30)
        lab.once()
    found = get(lab, "/numbers/data?range=6h").json()["plots"]["used"]["lines"]
    assert {line["label"]: line["values"][-1] for line in found} == {"GPUs": 40.0, "cores": 50.0}
    told = metrics(lab)
    assert told["bai_measured", "default", "cpu"] == 4000 and told["bai_measured", "default", "gpu"] == 2000
    row = lab.workspace.store.figures("here", MINUTE, lab.world.clock.now() - 61, 1e12, "default")[-1]
    assert (row.sums["used/cpu"], row.sums["used/gpu"]) == (2000, 800)
    lab.close()


# --- what a session uses


def test_what_a_session_uses_is_asked_once_for_all_who_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    lab.write("a", session("a", "resources: {cpu: 2, memory: 1GiB, cuda.device: 1}"))
    lab.once()
    lab.once()
    for kernel in lab.world.kernels:
        lab.world.use(kernel, SimulatedLoad(cores=1.5, gpu=80))
    asked = 0
    measure = lab.workspace.provider.usage  # type: ignore[attr-defined]

    def counted() -> Any:
        nonlocal asked
        asked += 1
        return measure()

    monkeypatch.setattr(lab.workspace.provider, "usage", counted)
    lab.hub.clusters["here"].usage = SharedUsage(lambda: 100.0)
    looks = visitor(lab)
    found = [looks.get(f"{HERE}/sessions/p/a/use").json() for _ in range(20)]
    assert asked == 1
    (kernel,) = found[0]["kernels"]
    assert (kernel["name"], kernel["node"], kernel["cores"]) == ("main1", "n1", 2.0)
    assert found[0]["why"] == "" and found[0]["total"] == 1 and kernel["cpu"] > 0
    assert [gpu["busy"] for gpu in kernel["gpus"]] == [80]
    monkeypatch.setattr(lab.loop.workspace, "provider", object())
    refused = looks.get(f"{HERE}/sessions/p/a/use")
    assert refused.status_code == 200 and "measure what sessions use" in refused.json()["why"]
    lab.close()


def test_a_page_of_a_session_that_runs_has_a_place_for_its_use(recorded: Lab) -> None:
    assert 'data-use="/clusters/here/sessions/p/own/use"' in get(recorded, "/sessions/p/own").text
    waits = get(recorded, "/sessions/p/waiting").text
    assert "data-use" not in waits and "plots-" in waits
