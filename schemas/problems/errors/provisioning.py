"""Nodes that cannot be brought to their profiles."""

from __future__ import annotations

from schemas.problems.errors.provider import ProviderError, ProviderUnavailable


class ProvisioningImpossible(ProviderError):
    """Nodes cannot be provisioned from here: {why}"""

    code = "BAI-E0350"


class NodeBusy(ProviderUnavailable):
    """Node {node} is being provisioned by somebody else: {why}"""

    code = "BAI-E0351"


class ProvisioningFailed(ProviderError):
    """Node {node} could not be brought to its profile: {why}"""

    code = "BAI-E0352"
