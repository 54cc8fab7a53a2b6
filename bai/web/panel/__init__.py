"""The control panel: pages of what the last pass saw, as values and templates."""
