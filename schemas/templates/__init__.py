"""Session templates and sweeps, before their documents become sessions: `expansion` replaces them by
documents (read it first), `rendering` fills in one template, `template_language` bounds what Jinja may do.
"""
