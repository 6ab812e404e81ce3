"""Pages over the service: what a page shows, `web/service` gave it, and what a page does, its script asks of the API.

Templates are filled on the server; scripts of our own make them live. Words are in `i18n/labels_web.json`.
"""
