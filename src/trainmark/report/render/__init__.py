"""Documents → text, Markdown or a page; records → CSV and JSON. `report.show` calls them."""
