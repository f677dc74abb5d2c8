"""Estimators: the faces of scikit-learn, for one data holder and for columns of several parties.

`SparseClassifier` and `SparseRegressor` fit one machine's rows, `FederatedClassifier` and `FederatedRegressor` run a
federation. Imports: `runs` and below. Start with `estimators/base.py` or `estimators/federated.py`.
"""
