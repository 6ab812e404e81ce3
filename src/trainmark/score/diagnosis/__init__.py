"""Why a step takes as long as it does: traces of all ranks → classes of time, matched collectives, causes.

`causes.diagnose` is the entry; `breakdown` divides the steps of one rank, `collectives` matches calls over ranks, and
`spans` has operations on sets of spans. Reports call it.
"""
