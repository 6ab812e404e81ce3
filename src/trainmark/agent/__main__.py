"""`python -I -S .../trainmark/agent/__main__.py VERB …`: finds its own package, then hands over to `main`."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from trainmark.agent.main import entry

entry()
