"""What the parts of the reconciler tell each other, as immutable values, and pure functions on them. Read
`state` (`Desired` and `Actual`), `plan`, `records` (what the store holds) and `results`.

`session_phase` derives phases, `sides` are a resource before and after an action, `changes` what differs and
why something is done, `adoption` makes records from labels, `fingerprint` says whether a plan is stale,
`plan_json` and `placement_json` are the serialised forms.
"""
