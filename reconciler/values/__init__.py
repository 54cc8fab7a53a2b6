"""What the parts of the reconciler tell each other, as immutable values, and pure functions on them. Read
`state` (`Desired` and `Actual`), `plan`, `records` (what the store holds) and `results`.

`session_phase` derives phases, `adoption` makes records from labels, `fingerprint` says whether a plan is
stale, `plan_json` and `placement_json` are the serialised forms.
"""
