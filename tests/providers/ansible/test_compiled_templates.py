"""Texts that are compiled once say what they say where each is compiled each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible._internal._templating._engine import TemplateEngine, TemplateOptions
from ansible._internal._templating._jinja_bits import AnsibleEnvironment, TemplateOverrides
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template

from providers.ansible.compiled_templates import compile_templates_once

TEMPLATES = (
    "plain",
    "{{ word }} and {{ number + 1 }}",
    r"{{ 'a\tb' }}",
    "{% if number %}\n  {{ word }}\n{% endif %}\n",
    "#jinja2: trim_blocks:False\n{% if number %}\n{{ word }}\n{% endif %}\n",
    "{{ derived }}",
    "{{ nobody }}",
    "{{ word | no_such_filter }}",
    "{{ word",
    "{{ [1, word] }}",
    "{{ values | map('upper') | list }}",
    "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{{ twice(word) }}",
)
EXPRESSIONS = (
    "number == 1",
    r"'a\tb' | length",
    "derived",
    "nobody is defined",
    "nobody",
    "number ==",
    "word in values",
)
OPTIONS = (
    TemplateOptions(),
    TemplateOptions(escape_backslashes=False),
    TemplateOptions(overrides=TemplateOverrides(lstrip_blocks=True)),
    TemplateOptions(overrides=TemplateOverrides(variable_start_string="[[", variable_end_string="]]")),
)


def says(evaluate: Any, *arguments: Any, **options: Any) -> Any:
    try:
        return evaluate(*arguments, **options)
    except AnsibleError as error:
        return type(error), error.message


def everything() -> list[Any]:
    """Whatever comes of all texts with all options, twice, in environments of two values of `word`."""
    found = []
    for word in ("one", "two") * 2:
        variables = {
            "word": word, "number": 1, "values": ["one", "x"], "derived": trust_as_template("{{ word }}!"),
        }  # fmt: skip
        engine = TemplateEngine(DataLoader(), variables)
        found += [
            says(engine.template, trust_as_template(text), options=options)
            for text in TEMPLATES
            for options in OPTIONS
        ]
        found += [
            says(engine.evaluate_expression, trust_as_template(text), escape_backslashes=escaped)
            for text in EXPRESSIONS
            for escaped in (True, False)
        ]
    return found


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The sources in Python that templates are made into from here on."""
    sources: list[str] = []
    compile_source = AnsibleEnvironment._compile

    def recorded(self: Any, source: str, filename: str) -> Any:
        sources.append(source)
        return compile_source(self, source, filename)

    monkeypatch.setattr(AnsibleEnvironment, "_compile", recorded)
    for name in ("compile", "compile_expression"):  # as they are now, for the end of the test
        monkeypatch.setattr(AnsibleEnvironment, name, getattr(AnsibleEnvironment, name))
    yield sources


def test_compiled_once_they_say_the_same(compiled: list[str]) -> None:
    expected = everything()
    each_time = len(compiled)
    compiled.clear()
    compile_templates_once()
    assert everything() == expected
    assert 0 < len(compiled) <= each_time // 4
    compiled.clear()
    assert everything() == expected
    assert compiled == []
