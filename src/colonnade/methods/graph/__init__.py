"""Methods on any connected graph, without a coordinator. Start with `graph/ridge.py`, then `graph/consensus.py`."""
