"""Values to text, without I/O: `terminal.py` and `markdown.py` each render a Plan; `picture.py` draws nodes.

Nothing here asks the world anything: what a renderer shows, it was handed.
"""
