"""`bai nodes probe`: a look at nodes from inside a pod of each. `pod` is that pod, `look` makes it, waits for
it and takes it away, `answer` reads what it has printed, which is not trusted.
"""
