def is_theirs(path): return False
