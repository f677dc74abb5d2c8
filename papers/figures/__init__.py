"""One small file a figure, named paper_number; each defines FIGURE."""
