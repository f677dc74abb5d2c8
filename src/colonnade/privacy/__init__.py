"""Privacy decides what may leave a party, what it costs, and remembers it.

The gate makes `Released` values, the mechanisms draw exact noise, the ledger reserves a plan before anything is sent,
and the statement says what a result promises. Imports: `problem`, `kernels`. Start with `privacy/gate.py`, then
`privacy/ledger.py`.
"""
