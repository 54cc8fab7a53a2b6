"""Which nodes a session gets. Read `base` first, the seam of selection policies; then `gang` (a session onto
nodes) and `node_scorer` (a node for one need). One policy per file: `concentrated`, `dispersed`,
`roundrobin`, `least_fragmentation`.
"""
