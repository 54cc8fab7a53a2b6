"""A pass in figures, for monitoring and over time. Read `pass_figures` first."""
