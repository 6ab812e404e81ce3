"""The report as one HTML file that asks nothing of any server."""
