"""Changing things in a browser: each change is a commit in the person's name, or YAML to copy.

`session_form.py` and `requests.py` say what is asked for (pure), `views.py` and `preview.py` what a page
shows of it; `desk.py` lays the change over the documents and pushes it, `routes.py` has the pages.
"""
