"""Records of what runs gave (`build`, `make/`), documents of them (`kinds/`), and how these are shown (`show`, `render/`,
`charts/`, `i18n/`). The command line, the library, `interop` and `automl` call `build.build`, the functions of `make/` and
`show.show`.
"""
