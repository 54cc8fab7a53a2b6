"""What the sections of a profile are made of: versions, names of packages, places on a node."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from schemas.problems.issues import value_error
from schemas.problems.text import format_value

VERSION_PATTERN = r"^[0-9][A-Za-z0-9.+~:_-]{0,127}$"
PACKAGE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9.+_-]{0,127}$"
SYSCTL_PATTERN = r"^[a-z0-9_]+([./][A-Za-z0-9_.:*-]+)+$"
MODULE_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,63}$"
URI_PATTERN = r"^(https?|file|ftp)://[^\u0000-\u0020]{1,2000}$"


def pattern_validator(pattern: str, rule: str, hint: str = "") -> AfterValidator:
    """A validator that refuses whatever the pattern does not match, saying what it should be."""
    compiled = re.compile(pattern.removesuffix("$") + r"\Z")

    def check(value: str) -> str:
        if compiled.match(value):
            return value
        raise value_error(f"{format_value(value)} is not {rule}", hint, "BAI-V033")

    return AfterValidator(check)


def _pattern_schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern})


Version = Annotated[
    str,
    pattern_validator(
        VERSION_PATTERN, "an exact version such as 550.90.07 or 1.17.4-1", "no ranges and no 'latest'"
    ),
    _pattern_schema(VERSION_PATTERN),
]
"""One exact version, as the package's maker writes it or as the package has it; never a range or `latest`."""
Package = Annotated[
    str, pattern_validator(PACKAGE_PATTERN, "the name of a package"), _pattern_schema(PACKAGE_PATTERN)
]
Sysctl = Annotated[
    str,
    pattern_validator(SYSCTL_PATTERN, "a kernel setting such as vm.swappiness"),
    _pattern_schema(SYSCTL_PATTERN),
]
Module = Annotated[
    str, pattern_validator(MODULE_PATTERN, "the name of a kernel module"), _pattern_schema(MODULE_PATTERN)
]
Uri = Annotated[
    str,
    pattern_validator(URI_PATTERN, "an address such as https://mirror.example/ubuntu or file:///srv/mirror"),
    _pattern_schema(URI_PATTERN),
]
