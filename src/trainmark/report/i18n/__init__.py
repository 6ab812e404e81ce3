"""Words of reports in every language: templates for reasons, labels of tables. Only renderers call it."""
