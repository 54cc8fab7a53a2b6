"""Logging in to servers, on the command line."""
