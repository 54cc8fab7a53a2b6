"""Queue policies: in which order the pending sessions of a group are tried. One policy per file; the seam is
`base.py`.
"""
