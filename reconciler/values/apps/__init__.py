"""Ports of sessions and services that people open by a URL: `app` is one, `directory` finds it by its name."""
