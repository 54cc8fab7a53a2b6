"""Ports of one host by which apps are reached: which connections come in there."""
