"""Documents of apps."""

from __future__ import annotations

PROXY = """
apiVersion: bai/v1
kind: AppProxy
metadata: {name: proxy}
spec: {url: "https://*.apps.example:8443"}
"""
PORTS = "ports: [{name: jupyter, port: 8888}, {name: board, port: 6006}, {name: db, port: 1, protocol: tcp}]"
