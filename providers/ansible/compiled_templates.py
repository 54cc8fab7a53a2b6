"""Ansible compiles the text of a template or an expression each time that it is evaluated: the condition of a
task that is carried out again, a variable that others name. Here each text is compiled once in a process.

Jinja keeps templates that come from files, not those that come from texts, which all of Ansible's do.
"""

from __future__ import annotations

from collections.abc import Hashable
from types import CodeType
from typing import Any

from ansible._internal._templating._jinja_bits import (
    _TEMPLATE_OVERRIDE_FIELD_NAMES,
    AnsibleEnvironment,
    AnsibleTemplate,
    _TemplateCompileContext,
)
from jinja2.environment import TemplateExpression

_compile = AnsibleEnvironment.compile
_compile_expression = AnsibleEnvironment.compile_expression


class _CompiledTexts:
    """What the two methods of an environment that compile return, by all that it follows from."""

    def __init__(self) -> None:
        self._templates: dict[Hashable, CodeType] = {}
        self._expressions: dict[Hashable, CodeType] = {}
        self._latest: CodeType | None = None

    def compile(self, environment: Any, source: Any, *arguments: Any, **options: Any) -> Any:
        """As Jinja's, which is given a text, or what an expression was made into."""
        if not isinstance(source, str) or arguments or options:
            self._latest = _compile(environment, source, *arguments, **options)
            return self._latest
        key = _key(environment, source)
        if key not in self._templates:
            self._templates[key] = _compile(environment, source)
        return self._templates[key]

    def compile_expression(self, environment: Any, source: str, undefined_to_none: bool = True) -> Any:
        """As Jinja's."""
        key = _key(environment, source)
        if key not in self._expressions:
            expression = _compile_expression(environment, source, undefined_to_none)
            assert self._latest is not None
            self._expressions[key] = self._latest
            return expression
        code, variables = self._expressions[key], environment.make_globals(None)
        template = AnsibleTemplate.from_code(environment, code, variables, None)
        return TemplateExpression(template, undefined_to_none)


def _key(environment: Any, source: str) -> Hashable:
    context = _TemplateCompileContext.current(optional=True)
    escaped = context is not None and context.escape_backslashes
    return (str(source), escaped, *(getattr(environment, name) for name in _TEMPLATE_OVERRIDE_FIELD_NAMES))


def compile_templates_once() -> None:
    """From now on, in this process and those that it forks."""
    texts = _CompiledTexts()

    def compile(self: Any, source: Any, *arguments: Any, **options: Any) -> Any:
        return texts.compile(self, source, *arguments, **options)

    def compile_expression(self: Any, source: str, undefined_to_none: bool = True) -> Any:
        return texts.compile_expression(self, source, undefined_to_none)

    AnsibleEnvironment.compile = compile
    AnsibleEnvironment.compile_expression = compile_expression
