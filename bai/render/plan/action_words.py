"""How actions are called, and drawn."""

SYMBOLS = {
    "create": "+", "update": "~", "replace": "-/+", "delete": "-", "queue": "?", "stop": "x",
    "provision": "*",
}  # fmt: skip
VERBS = {
    "create": "create", "update": "update in place", "replace": "replace", "delete": "delete",
    "queue": "wait in the queue", "stop": "stop", "provision": "provision",
}  # fmt: skip
"""What the symbols mean."""
