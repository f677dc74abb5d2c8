"""The live view: a page on this machine over a store, for looking only: runs, budgets, messages as they leave, reports.

Never    a value: of a message's body only the first bytes are read, which say its kind and round; no secret is read.
Safe     it listens on the loopback address alone, wants a random token in the address, refuses foreign Host and Origin
         headers, loads nothing from elsewhere, and opens every file of the store for reading only.
"""
