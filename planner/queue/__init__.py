"""Queue policies: in which order the pending sessions of a group are tried. Read `base` first, their seam.
One policy per file: `fifo`, `lifo`, `drf` (with `hierarchy`), `fair_share`; `skips` counts who was passed
over.
"""
