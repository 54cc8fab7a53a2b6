"""Container images as documents describe them: `catalog` finds the image that a session means; begin there.
`requirements` says what it asks of a container, `session_images` what a session takes over from it.
"""
