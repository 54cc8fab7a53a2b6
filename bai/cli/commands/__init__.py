"""One module per command, each with an `app`; imported only when its command runs."""
