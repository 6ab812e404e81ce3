"""HTTP: routes, guards, headers and errors over `web/service`. Every route names who may use it; one that does not is
refused to everybody."""
