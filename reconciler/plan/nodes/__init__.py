"""Which nodes a plan provisions. Pure.

`occupants` says who sits on a node and would have to leave, `waves` which nodes go together, `plan_rollout`
what one plan does of all that, `node_actions` writes it into the plan; `volume_hosts` is about the folders
on such nodes, and `profile_status` tells people how a node stands. Why a node is to be provisioned, and why
it takes no sessions before, is in `reconciler.provisioning.reasons`.
"""
