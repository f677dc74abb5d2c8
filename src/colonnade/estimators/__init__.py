"""Sparse linear models on one machine, with the interface of scikit-learn."""

from __future__ import annotations

from colonnade.estimators.classifier import SparseClassifier
from colonnade.estimators.regressor import SparseRegressor

__all__ = ["SparseClassifier", "SparseRegressor"]
