"""Our methods beside each other and beside other libraries, on the same rows of the same tables: docs/comparison.md."""
