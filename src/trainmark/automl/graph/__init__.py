"""Architectures as graphs: what they are, how they grow, what they cost, and the networks that torch makes of them.

`graph` is the record and its checks, `moves` makes children, `weights` lets them inherit; `keys` identifies them,
`flops` counts operations, `network` builds modules; `graph_json`, `aiperf_json` and `start_networks` make graphs. Pure.
"""
