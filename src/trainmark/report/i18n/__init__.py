"""Words of reports in every language: labels (`labels*.py`), and a template for every reason (`reasons_<room>.py`).

`speaker.say` makes text of a label or a reason. Renderers, the command line, logs and exporters call it; records hold
reasons, never words.
"""
