"""The papers' figures and tables, run again with this code: as published, ours, and where they differ."""
