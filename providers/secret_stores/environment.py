"""Secrets as variables of the process that runs bai."""

from __future__ import annotations

import os

from providers.secret_stores.base import Unreadable


class Environment:
    """The variables of this process."""

    def read(self, entry: str) -> str:
        value = os.environ.get(entry)
        if value is None:
            raise Unreadable("the variable is not set where bai runs")
        return value
