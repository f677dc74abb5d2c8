"""Our methods beside each other and beside other libraries, on the same rows of the same tables: papers/comparison.md."""
