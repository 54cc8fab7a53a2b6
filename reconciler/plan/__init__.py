"""Deciding: desired and actual state give a Plan, and nothing else is read. Read `pipeline` first: it shows
the stages and why they come in this order.

Values that stages share are in `plan_request`, `context` and `node_rollout`; each stage's own result is
beside it, in `decide.decision`, `place.placement_result` and `actions.action_set`. Modules import upwards
only: `planner_values`, `references`, `drift`, then `decide`, `network`, `nodes`, `images`, `place`,
`actions`, and the pipeline. Who only looks takes what it needs from one module here, and no planner is
loaded for it.
"""
