"""A document as YAML lines that are safe to print."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from bai.render.humanize import clean


class _Dumper(yaml.SafeDumper):
    """Block style, long texts as blocks, no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _represent_text)


def document_lines(document: Mapping[str, object]) -> list[str]:
    """The document as YAML, key order kept, control characters visible."""
    text = yaml.dump(
        dict(document),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=100,
    )
    return [clean(line) for line in text.splitlines()]
