"""The server: loops, and an HTTP API that shows what they see.

Read `hub.py` (the loops and their latest passes), `access.py` (who may do what), `app.py` (all together),
`routes/` (one module a subject), `metrics.py` (for Prometheus).
"""
