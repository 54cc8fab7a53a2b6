"""Plugins: what is built in and what strangers install, found by one loader (`entry_points`), and the options
that documents give them, held to the schema that a plugin declares (`options`)."""
