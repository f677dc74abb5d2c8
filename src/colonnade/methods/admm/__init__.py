"""ADMM over columns on a star: `SharingADMM` is exact, `PrivateSharingADMM` has a budget."""
