"""Ports of sessions that people open by a URL: `app` is one, `directory` finds it by its name."""
