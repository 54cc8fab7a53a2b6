"""The documents that pages show are documents: a reader who copies one gets no error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from schemas.kinds.kind_registry import KINDS
from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.loading.documents import parse_resource
from schemas.loading.parsed_file import judge_expanded
from schemas.rules.document_rules import check_document
from schemas.rules.services.template_rules import template_rules
from schemas.templates.expansion import TemplateExpander, pattern_document
from schemas.values.envelope import API_VERSION

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
MISSING = "BAI-V021"
BLOCK = re.compile(r"^```ya?ml\n(.*?)^```", re.DOTALL | re.MULTILINE)


def samples() -> Iterator[tuple[str, dict[str, object]]]:
    for page in PAGES:
        for block in BLOCK.findall(page.read_text("utf-8")):
            for document in yaml.safe_load_all(block):
                if isinstance(document, dict) and document.get("kind") in KINDS:
                    yield page.name, document


SAMPLES = list(samples())


def test_there_are_samples() -> None:
    assert {"coming-from.md", "interactive.md"} <= {page for page, _ in SAMPLES}


@pytest.mark.parametrize(("page", "document"), SAMPLES, ids=lambda value: str(value)[:60])
def test_a_document_of_a_page_has_no_mistakes(page: str, document: dict[str, object]) -> None:
    """One with a name is whole; an excerpt without leaves out what it is not about."""
    if "metadata" in document:
        resource, issues = parse_resource(document)
        assert resource is not None and not list(check_document(resource)), (page, issues)
        if isinstance(resource, Service):
            made = TemplateExpander(()).expand_service(document)
            pattern, broken = judge_expanded(pattern_document(document), made)
            assert isinstance(pattern, Session) and not broken, (page, broken)
            assert not list(template_rules(pattern)), page
    else:
        _, issues = parse_resource({"apiVersion": API_VERSION, **document})
        assert {issue.code for issue in issues} <= {MISSING}, (page, issues)
