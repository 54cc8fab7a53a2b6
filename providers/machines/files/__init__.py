"""Files where a kernel or a volume is: folders listed without leaving them (`folder_view` on the spot,
`folder_listing` what comes of it), and tar streams of one file or many.
"""
