"""Methods on any connected graph, without a coordinator. Start with `graph/ridge.py`; `graph/consensus.py` is what they share."""
