"""Words of reports in every language: templates for reasons, labels of tables.

Renderers call it; nobody else makes words.
"""
