"""Templates are filled in with what they are given, and with nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.kinds.session_template import Parameter, SessionTemplateSpec, SweepSpec
from schemas.templates.rendering import fill_template, merge_specs, sweep_combinations, template_issues


def fill(text: object, **values: str | bool | int | float) -> object:
    """What a text becomes; the words of what is wrong instead, when something is."""
    parameters = {name: Parameter(type=_type(value)) for name, value in values.items()}
    spec = SessionTemplateSpec(parameters=parameters, session={"x": text})
    found, issues = fill_template(spec, values, name="s", project="p", at=())
    return found["x"] if not issues else issues[0].message


def _type(value: object) -> str:
    return {str: "text", bool: "boolean", int: "integer", float: "number"}[type(value)]


def test_a_lone_expression_keeps_its_type() -> None:
    assert fill("{{ a }}", a=3) == 3
    assert fill(" {{ a * 2 }} ", a=3) == 6
    assert fill("{{ a }}", a=True) is True
    assert fill("{{ a }}GiB", a=3) == "3GiB"
    assert fill("{{ a }}{{ a }}", a=3) == "33"
    assert fill({"{{ a }}": ["{{ a }}", 1, None]}, a="k") == {"k": ["k", 1, None]}


def test_commands_and_variables_are_texts() -> None:
    text = {"command": ["{{ a }}", "{{ b }}"], "env": {"A": "{{ a }}"}, "cpu": "{{ a }}"}
    assert fill(text, a=3, b=True) == {"command": ["3", "true"], "env": {"A": "3"}, "cpu": 3}


@given(st.text(), st.integers(-(10**6), 10**6))
def test_values_are_data(text: str, number: int) -> None:
    """Whatever is in a value, it is not read as a template itself."""
    assert fill("{{ a }}", a=text) == text
    assert fill("<{{ a }}{{ b }}>", a=text, b=number) == f"<{text}{number}>"


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ a.__init__.__globals__ }}",
        "{{ [].append(1) }}",
        "{{ range(10**9) | list }}",
        "{{ 'x' * 10**9 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ [0] * 10**9 }}",
        "{{ cycler.__init__ }}",
        "{{ nothing }}",
        "{{ a.nothing }}",
        "{% for x in range(99999) %}{{ x }}{% endfor %}",
        "{{ 1 / 0 }}",
    ],
)
def test_what_reaches_out_or_swells_is_refused(text: str) -> None:
    assert "cannot be filled in" in str(fill(text, a="v"))


def test_rules_find_unknown_names_and_broken_templates() -> None:
    spec = SessionTemplateSpec(parameters={"lr": Parameter()}, session={"a": "{{ rl }}", "b": ["{{"]})
    assert [issue.at for issue in template_issues(spec)] == [
        ("spec", "session", "a"),
        ("spec", "session", "b", 0),
    ]


def test_joining() -> None:
    below = {"env": {"A": "1", "B": "2"}, "command": ["x"], "n": 1}
    assert merge_specs(below, {"env": {"B": "3"}, "command": ["y"]}) == {
        "env": {"A": "1", "B": "3"}, "command": ["y"], "n": 1,
    }  # fmt: skip
    assert below["env"] == {"A": "1", "B": "2"}


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=5, unique=True), st.sets(st.integers(0, 5), max_size=4)
)
def test_a_sweep_is_every_combination_but_those_left_out(values: list[int], out: set[int]) -> None:
    spec = SweepSpec(
        template="t",
        over={"a": tuple(values), "b": ("x", "y")},
        exclude=tuple({"a": value} for value in out),
    )
    found, issues = sweep_combinations(spec)
    left = [value for value in values if value not in out]
    assert bool(issues) == (not left)
    assert found == ([{"a": v, "b": b} for v in left for b in ("x", "y")] if left else [])


def test_a_sweep_is_bounded() -> None:
    over = {name: tuple(range(40)) for name in "abcd"}
    assert "too many" in sweep_combinations(SweepSpec(template="t", over=over))[1][0].message
    assert (
        "at most 1000"
        in sweep_combinations(SweepSpec(template="t", over={n: over[n] for n in "ab"}))[1][0].message
    )
