"""The one program on a node: starts ranks, watches them, and leaves nothing behind. Standard library only."""
