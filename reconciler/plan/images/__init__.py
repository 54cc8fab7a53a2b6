"""Images in a plan. Read `pinning` first: which digest containers are made from where documents name tags.

`requirements` is what images ask of sessions and nodes, `image_drift` what became of images that run; `pulls`
and `early_pulls` say what is fetched where.
"""
