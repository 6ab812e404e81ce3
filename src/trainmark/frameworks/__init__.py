"""How each framework's ranks start and find each other. Pure: topology in, commands and environment out.

`protocol.py` says what a framework is. Planning calls it; nothing here starts a process.
"""
