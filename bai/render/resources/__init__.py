"""Resources: `status` lists them, `describe` shows one in full; `history`, `events` and `audit` tell what
happened.
"""
