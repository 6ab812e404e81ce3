"""Runs → records (`build`, `make/`) → documents (`kinds/`) → text, Markdown and pages (`render/`, `charts/`, `i18n/`).

The command line, the library, `interop` and `automl` call `build.build`, the functions of `make/`, and `show.show`.
"""
