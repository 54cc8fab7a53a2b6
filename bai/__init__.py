"""The front door: the `bai` command, its server and its renderers. Read `cli/main.py` first, then
`render/`.
"""

__version__ = "0.1.0"
