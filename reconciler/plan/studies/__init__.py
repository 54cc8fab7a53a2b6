"""Plans that are never carried out: of everything anew, to be asked why (`study`), and of one session more
(`preview`).
"""
