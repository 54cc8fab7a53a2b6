"""The words that stand in `kind:`, for whoever needs no more of the kinds than their names."""

from __future__ import annotations

KIND_NAMES = (
    "Cluster", "Node", "NodePool", "NodeProfile", "ResourceGroup", "Domain", "Project", "User", "Quota",
    "StorageHost", "Volume", "SecretStore", "Registry", "Image", "Session", "SessionTemplate", "Sweep",
    "Service", "AppProxy", "Notification", "Policy",
)  # fmt: skip
"""In the order of the reference, as the registry of kinds has them."""
