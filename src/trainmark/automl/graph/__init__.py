"""Architecture graphs: morphisms, keys, FLOPs, weights, networks."""
