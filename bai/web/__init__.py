"""The server: loops, and an HTTP API that shows what they see.

Read `cluster_loops` first (the loops and their latest passes), then `server` (sockets, threads, the end),
`app` (all routes together), `auth/roles` (who may do what) and `routes/` (one module a subject); `metrics`
and `pass_metrics` are for Prometheus.
"""
