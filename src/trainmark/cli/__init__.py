"""The command line: one module per verb, imported when it is called. A verb parses its arguments, calls the library and
prints; it plans nothing and knows no launcher. Nothing imports it but the installed program and the tests.
"""
