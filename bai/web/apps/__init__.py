"""Apps of sessions by URL: Caddy in front of them, which asks for each request who may pass and where to.

Who may: read `decision` first, then `gate` (what Caddy asks) and `doors` (how one logs in at an app's host).
"""
