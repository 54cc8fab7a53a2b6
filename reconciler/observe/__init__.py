"""What is: records and kernels put together as `Actual`. Read `observe` first, then `refresh`, with which
every reconcile cycle begins and which writes to the store; what it writes is decided in `store_changes`.

The other modules ask for one thing each: `hardware`, `health`, `gpu_sharing`, `images`, `node_status`,
`usage_samples`, `clock_skew`; `endpoints` and `storage_access` say how nodes and their folders are reached.
Nothing here knows how a plan is made.
"""
