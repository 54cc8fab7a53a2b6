"""Health of nodes: what is wrong with a machine and its GPUs now, and what that means for placement.

`node/` runs on the machine and reports facts (`facts.py`), `rules/` turns them into findings (`codes.py` has
every code there is), `query.py` does both for many nodes at once, `metrics.py` gives the facts as values.
"""

from providers.health.codes import CODES, Code, Finding, Severity
from providers.health.values import ExpectedGpu, ExpectedNode, NodeHealth

__all__ = ["CODES", "Code", "ExpectedGpu", "ExpectedNode", "Finding", "NodeHealth", "Severity"]
