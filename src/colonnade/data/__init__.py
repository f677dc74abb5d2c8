"""Data knows tables: who holds which columns and rows, how they are read, matched and turned into numbers.

A `Federation` is parties with columns; a schema says in public what a column may hold. Imports: `model` and below.
Start with `data/federation.py`; `data/schema/` encodes, `data/sources/` reads, `data/federation_file.py` describes
parties that run elsewhere.
"""
