"""The launcher for ModelArts: each attempt is a training job, and its files come home through the object store.

Only `launch.protocol` names its class; the rest of trainmark asks for its capabilities.
"""
