"""Frank-Wolfe methods: one column, group, stump or example per round. Start with `frank_wolfe/distributed.py`."""
