"""One repository and one cluster, opened: what the commands and the loop work with. Read `workspace` first:
it puts everything together, and nothing here imports it.

`placement_policies` finds the planner's policies, `image_lookup` asks registries, `node_provisioning` is the
service that provisions nodes, `rebuild` makes a lost store anew.
"""
