"""Figures of one attempt (`attempt.score_run`) and of one case (`case.measure`).

The other modules each find some of the figures of an attempt: its window, phases, energy, losses, disturbances.
`gate` says whether a loss is what it must be. Reports and the run loop call them.
"""
