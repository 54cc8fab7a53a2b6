"""What a port must speak to be an app."""

from __future__ import annotations

APP_PROTOCOLS = frozenset({"http", "https", "grpc"})
"""Of apps that have a login."""
