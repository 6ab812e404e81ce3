"""Writing runs in other tools' formats."""
