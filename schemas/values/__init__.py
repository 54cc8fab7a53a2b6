"""Values that documents are made of. `envelope` is the base of every model, to be read first; then `names`,
`quantities` and `image_reference`: texts that are checked, amounts that are exact.
"""
