"""The base of every error of bai."""

from __future__ import annotations

from typing import ClassVar


class BaiError(Exception):
    """{message}"""

    code: ClassVar[str] = "BAI-E0000"
    retryable: ClassVar[bool] = False

    def __init__(self, *, hint: str = "", **fields: object) -> None:
        self.fields = fields
        self.hint = hint
        super().__init__(fields)

    @property
    def message(self) -> str:
        """The class's docstring, first paragraph, with the fields filled in."""
        text = " ".join((type(self).__doc__ or "").split("\n\n")[0].split())
        return text.format(**self.fields)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" ({self.hint})" if self.hint else "")
