"""Apps of sessions by URL: Caddy in front of them, which asks for each request who may pass and where to.

Read `decision` first, then `gate` (what Caddy asks) and `reserved_paths` (logins at an app's own host).
"""
