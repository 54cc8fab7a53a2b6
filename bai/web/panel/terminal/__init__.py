"""Terminals in a browser: a program of a session's container, joined to a page by a WebSocket.

Read `socket` first: who may, and what goes both ways. `live_terminal` is one that runs, and goes on when its
connection is lost; `terminals` knows all of them, `output_window` keeps what they wrote last. `messages` are
what a page and a server tell each other, beside bytes. `terminal_page` is what the page shows.
"""
