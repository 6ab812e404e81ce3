"""Configuration files of AAH and AIPerf, read as experiments.

`config` reads the file, `command` the command line in it. `trainmark automl run` calls `config`.
"""
