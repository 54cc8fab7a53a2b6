"""A server's client: contexts, logging in, and what reading commands and orders ask of it."""
