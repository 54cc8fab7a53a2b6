"""The values of the planner. Read `types` first, then `slots`, `topology` (one kind of machine),
`node_state` (what is free on one node) and `demand` (what one kernel needs of it).
"""
