"""The control panel: pages for people, at `/`. Everything is read from what the last pass of a loop saw and
from the store, as the API does; nothing is changed.

Read `pages` (how a page is made and kept), `access` (who looks), then `routes`, a module for each subject.
`views` makes the values of templates, and knows no requests.
"""
