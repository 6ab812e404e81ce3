"""Records → documents: one module for each kind of report. `report.show` calls them."""
