"""One noisy Gram matrix of all columns, and any linear model from it. Start with `gram/private_gram.py`."""
