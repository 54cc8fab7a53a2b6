"""Plans and reviews: `sections` has what a plan says, `terminal` and `markdown` lay it out.

`review_sections`, `review_text` and `review_markdown` do the same for reviews.
"""
