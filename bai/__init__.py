"""The front door: the `bai` command and its renderers."""
