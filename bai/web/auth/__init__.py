"""Who asks, and what they may: read `roles` first, then `access_file` (the file that says so).

`static_tokens`, `oidc` and `proxy` are the ways to say who one is; `grants` makes roles of what an identity
provider or a proxy says.
"""
