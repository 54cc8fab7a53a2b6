"""Which port of their AppProxy's host apps have: who keeps one, who gets one, and who has none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bai.queries.facts.apps import apps_of
from bai.render.plan.terminal import render_plan
from reconciler.values.apps.ports import PortMap, PortWish, assign
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from schemas.kinds.parts.app_ports import AppPorts
from tests.bai.test_render import text_of
from tests.reconciler.lab import Lab, action, session, summary

PORTS = AppPorts.model_validate({"host": "gpu.example", "http": "30000-30002", "tcp": "31000-31003"})
PROXY = """
apiVersion: bai/v1
kind: AppProxy
metadata: {name: apps}
spec:
  ports: {host: gpu.example, http: 30000-30001, tcp: 31000-31001}
  widest: public
"""
TCP = "ports: [{name: db, port: 5432, protocol: tcp}], apps: {db: {access: public}}"
HTTP = "ports: [{name: web, port: 80}]"
SERVICE = """
apiVersion: bai/v1
kind: Service
metadata: {name: cache, project: p}
spec:
  replicas: 2
  template:
    command: [sleep, inf]
    resources: {cpu: 1}
    ports: [{name: db, port: 5432, protocol: tcp}]
    apps: {db: {access: public}}
"""


def wishes(**numbers: int) -> tuple[PortWish, ...]:
    return tuple(PortWish(key, "tcp", number) for key, number in sorted(numbers.items()))


def test_the_lowest_that_is_free_comes_first_and_the_order_is_that_of_names() -> None:
    assert assign(PORTS, wishes(b=0, a=0), {}).numbers == {"a": 31000, "b": 31001}


def test_whoever_has_one_keeps_it_whoever_else_comes() -> None:
    assert assign(PORTS, wishes(a=0, b=0, c=0), {"c": 31000}).numbers == {"c": 31000, "a": 31001, "b": 31002}


def test_one_that_is_named_comes_before_those_that_are_not() -> None:
    assert assign(PORTS, wishes(a=0, z=31000), {}).numbers == {"z": 31000, "a": 31001}


def test_a_name_takes_nobodys_port_away() -> None:
    """Whoever may write a document of one project moves no other's app."""
    found = assign(PORTS, wishes(a=0, z=31000), {"a": 31000})
    assert found.numbers == {"a": 31000} and found.refusals == {"z": "port 31000 is another app's"}
    assert assign(PORTS, wishes(z=31000), {"a": 31000}).numbers == {"z": 31000}


def test_another_number_in_a_document_moves_its_app() -> None:
    assert assign(PORTS, wishes(a=31003), {"a": 31000}).numbers == {"a": 31003}
    assert assign(PORTS, wishes(a=0), {"a": 31003}).numbers == {"a": 31003}


def test_what_is_remembered_counts_only_within_the_range() -> None:
    assert assign(PORTS, wishes(a=0), {"a": 30001}).numbers == {"a": 31000}
    assert assign(PORTS, wishes(a=0, b=0), {"a": 31002, "b": 31002}).numbers == {"a": 31002, "b": 31000}


def test_a_range_that_is_used_up_says_so() -> None:
    found = assign(PORTS, wishes(a=0, b=0, c=0, d=0, e=0, f=0), {})
    assert set(found.refusals) == {"e", "f"}
    assert found.refusals["e"] == "all ports for tcp, 31000-31003, are taken"
    no_tcp = AppPorts.model_validate({"host": "gpu.example", "http": "30000-30002"})
    assert assign(no_tcp, wishes(a=0), {}).refusals == {"a": "the AppProxy has no ports for tcp"}


_KEYS = st.sampled_from("abcdefgh")
_NUMBERS = st.integers(30_998, 31_006)


@given(st.dictionaries(_KEYS, st.one_of(st.just(0), _NUMBERS)), st.dictionaries(_KEYS, _NUMBERS))
def test_whatever_is_wanted_and_remembered(wanted: dict[str, int], remembered: dict[str, int]) -> None:
    found = assign(PORTS, wishes(**wanted), remembered)
    numbers = list(found.numbers.values())
    assert len(set(numbers)) == len(numbers) and all(31000 <= each <= 31003 for each in numbers)
    assert found.numbers.keys() | found.refusals.keys() == wanted.keys()
    assert not found.numbers.keys() & found.refusals.keys()
    assert assign(PORTS, wishes(**wanted), found.numbers).numbers == found.numbers, "it is stable"
    if len(numbers) < 4:
        assert all(wanted[key] for key in found.refusals), "nobody goes without while one is free"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = Lab(tmp_path)
    made.write({"proxy": PROXY, "b": session("b", TCP), "web": session("web", HTTP)})
    return made


def ports(lab: Lab) -> dict[str, int]:
    """As they are remembered."""
    record = lab.store.recorded("here")["AppProxy/apps"]
    return dict(record.app_ports)


def test_a_plan_says_which_apps_get_which_ports_and_an_apply_remembers_it(lab: Lab) -> None:
    text = text_of(render_plan(lab.plan()))
    assert "ports.Session/p/b db: (none) -> tcp://gpu.example:31000" in text, text
    assert "ports.Session/p/web web: (none) -> https://gpu.example:30000" in text, text
    assert summary(lab.converge()) == {}
    assert ports(lab) == {"Session/p/b db": 31000, "Session/p/web web": 30000}


def test_a_saved_plan_gives_the_ports_that_it_says(lab: Lab) -> None:
    plan = lab.plan()
    read = load_plan(dump_plan(plan))
    assert read == plan
    assert lab.apply(read).ok and ports(lab) == {"Session/p/b db": 31000, "Session/p/web web": 30000}
    lab.drop("b")
    assert load_plan(dump_plan(lab.plan())) == lab.plan()


def test_a_port_stays_for_as_long_as_its_session_and_is_free_then(lab: Lab) -> None:
    lab.converge()
    kernel = lab.kernel("b")
    lab.write({"a": session("a", TCP)})
    plan = lab.plan()
    assert summary(plan) == {"Session/p/a": "create", "AppProxy/apps": "update"}
    assert [(each.path, each.after) for each in action(plan, "AppProxy/apps").changes] == [
        ("ports.Session/p/a db", "tcp://gpu.example:31001")
    ]
    lab.converge()
    assert lab.kernel("b") == kernel, "who has one hears nothing of others"
    lab.write({"b": session("b", f"{TCP}, env: {{A: other}}")})
    assert summary(lab.plan()) == {"Session/p/b": "replace"}
    lab.converge()
    assert ports(lab)["Session/p/b db"] == 31000
    lab.write({"c": session("c", TCP)})
    plan = lab.plan()
    assert summary(plan) == {"Session/p/c": "create"}
    assert "db of Session/p/c has no port: all ports for tcp, 31000-31001, are taken" in plan.warnings
    lab.drop("b")
    lab.converge()
    assert ports(lab) == {"Session/p/a db": 31001, "Session/p/c db": 31000, "Session/p/web web": 30000}


def test_a_service_has_one_port_for_all_its_replicas(lab: Lab) -> None:
    lab.write({"cache": SERVICE})
    lab.converge()
    assert ports(lab)["Service/p/cache db"] == 31000
    assert not [key for key in ports(lab) if "cache-" in key]


def test_what_nobody_may_reach_without_a_login_is_not_mapped(lab: Lab) -> None:
    lab.write({"b": session("b", "ports: [{name: db, port: 5432, protocol: tcp}]")})
    lab.converge()
    assert ports(lab) == {"Session/p/web web": 30000}


def test_apps_with_names_have_a_port_where_they_ask_for_one(lab: Lab) -> None:
    lab.write(
        {
            "proxy": PROXY.replace("spec:\n", 'spec:\n  url: "https://*.apps.example"\n'),
            "other": session("other", f"{HTTP}, apps: {{web: {{port: 30001}}}}"),
        }
    )
    lab.converge()
    assert ports(lab) == {"Session/p/b db": 31000, "Session/p/other web": 30001}
    desired, actual = lab.desired(), lab.actual()
    found = {each: apps_of(desired, actual, f"Session/p/{each}")[0].url for each in ("other", "web")}
    assert found == {
        "other": "https://gpu.example:30001", "web": "https://web--web--p.apps.example"
    }  # fmt: skip


def test_what_has_no_ports_of_its_kind_says_so_and_is_nobodys_warning(lab: Lab) -> None:
    lab.write({"proxy": PROXY.replace("http: 30000-30001, ", "")})
    assert not [each for each in lab.plan().warnings if "port" in each]
    lab.converge()
    (app,) = apps_of(lab.desired(), lab.actual(), "Session/p/web")
    assert (app.url, app.unmapped) == ("", "the AppProxy has no ports for http")
    lab.write({"proxy": PROXY.replace("tcp: 31000-31001", "").replace("30001, }", "30001}")})
    (app,) = apps_of(lab.desired(), lab.actual(), "Session/p/b")
    assert (app.url, app.unmapped) == ("", "the AppProxy has no ports for tcp")
    assert "db of Session/p/b has no port: the AppProxy has no ports for tcp" in lab.plan().warnings


def test_a_host_without_ports_any_more_leaves_nothing_behind(lab: Lab) -> None:
    lab.converge()
    lab.write({"proxy": 'apiVersion: bai/v1\nkind: AppProxy\nmetadata: {name: apps}\n'
                        'spec: {url: "https://*.apps.example", widest: public}\n'})  # fmt: skip
    lab.converge()
    assert ports(lab) == {}


def test_nothing_is_mapped_of_nothing() -> None:
    assert assign(PORTS, (), {"a": 31000}) == PortMap()
