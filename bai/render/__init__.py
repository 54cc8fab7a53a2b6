"""Values to text, without I/O: `plan/terminal` and `plan/markdown` render a plan, `nodes/picture` nodes.

Nothing here asks the world anything: what a renderer shows, it was handed. `humanize` has numbers and names.
"""
