"""Logging in, and out: by a token that is typed, or at an identity provider (`code_flow`, whose two ways lead
through `public_address`).
"""
