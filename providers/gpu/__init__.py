"""Parts of GPUs, enforced: `shares` says what a node can enforce, and gives a kernel what its means needs.

`node/` runs on the node itself: the MPS control daemons, one per GPU, and what can be found out about them.
"""
