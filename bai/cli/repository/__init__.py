"""Documents on disk: `scaffold` writes first ones, `formatting` brings them into form, `validation` says
what is wrong.
"""
