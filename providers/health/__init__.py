"""Health of nodes: what is wrong with a machine and its GPUs now, and what that means for placement.

`node/` runs on the machine and reports facts (`facts.py`), `rules/` turns them into findings (`codes.py` has
every code there is), `ask.py` does both for many nodes at once, `metrics.py` gives the facts as values.
"""

from providers.health.codes import CODES, Code, Finding, Severity
from providers.health.values import Expected, ExpectedGpu, Health

__all__ = ["CODES", "Code", "Expected", "ExpectedGpu", "Finding", "Health", "Severity"]
