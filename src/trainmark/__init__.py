"""trainmark measures how fast, how far and how well machines train AI models."""

__version__ = "0.1.0"
