"""Words, in every language: labels (`labels*.json`) and a template for every reason (`reasons_<room>.json`).

`say` gives the text of a label or reason. Renderers, run.log, the command line and exporters call it; records hold
labels and reasons, never words. This room knows no other.
"""
