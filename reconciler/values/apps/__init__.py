"""Ports of sessions and services that people open by a URL: `app` is one, `standing` says whether
a service's can be opened, `directory` finds it by its name."""
