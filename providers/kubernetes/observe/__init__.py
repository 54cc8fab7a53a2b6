"""What is read of a cluster: its pods (`pods`), nodes (`nodes`), devices (`devices`), the hardware that
follows from both (`hardware`), what others use (`foreign`), and all of it together (`observer`).
"""
