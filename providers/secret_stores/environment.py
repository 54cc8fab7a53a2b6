"""Secrets as variables of the process that runs bai."""

from __future__ import annotations

import os

from providers.secret_stores.base import SecretUnreadable


class EnvironmentBackend:
    """The variables of this process."""

    def read(self, entry: str) -> str:
        value = os.environ.get(entry)
        if value is None:
            raise SecretUnreadable("the variable is not set where bai runs")
        return value
