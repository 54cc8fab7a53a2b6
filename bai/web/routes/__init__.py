"""The API's routes, one module a subject."""
