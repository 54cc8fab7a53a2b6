"""Which nodes a plan provisions. Pure.

`cause` says why a node is to be provisioned and why it takes no sessions before, `occupants` who sits on it
and would have to leave, `waves` which nodes go together, `rollout` what one plan does of all that, `actions`
writes it into the plan.
"""
