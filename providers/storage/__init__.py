"""Volumes as folders on nodes: made, limited, counted, moved aside. `base.py` is the seam, `nodes.py` carries
it out, `node/` is what runs there, `mounts.py` checks what a kernel is about to mount."""
