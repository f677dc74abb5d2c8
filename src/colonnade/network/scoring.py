"""Scores of a party's rows by a model that it has a part of: which part, and what the label holder keeps.

A run of scores names a model by the run that made it. Each party takes the coefficients that it kept of that run, from
this store or from the one its file names (`models`), and nobody sends it any. The sum of all parts stays with the label
holder: `scores/RUN.parquet` in its store, with the key of each row where rows have one.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.alignment import Agreement
from colonnade.errors import InvalidInput
from colonnade.methods.masked_scores import MaskedScores
from colonnade.network.parcel import is_name
from colonnade.network.party_data import PartyData
from colonnade.privacy.store import write_synced


def part_path(store: Path, run: str) -> Path:
    """Where a party's part of a run's model is."""
    return store / "fits" / f"{run}.part.json"


class Scoring:
    """One party's models and scores."""

    def __init__(self, data: PartyData, store: Path, models: Path | None) -> None:
        self.data, self.store, self.models = data, store, models or store

    def equipped(self, method: MaskedScores) -> MaskedScores:
        """The method with this party's own coefficients of the model it names."""
        part, member = self._part(method.model), self.data.member
        x = np.asarray(part["coefficients"], np.float64)
        features = list(member.schema.features) if member.schema is not None else None
        if x.shape != (member.width,) or part["features"] != features:
            raise InvalidInput(
                f"{self.data.name!r} brings other columns than run {method.model} had. Nothing was sent."
            )
        # On a graph the label holder knows the intercept, and the hub does not.
        own = part["intercept"]
        return replace(method, coefficients={self.data.name: x}, intercept=method.intercept if own is None else own)

    def _part(self, model: str) -> Any:
        path = part_path(self.models, model)
        if not is_name(model) or not path.is_file():  # a name first: the hub chose it, and it becomes a path
            raise InvalidInput(
                f"{self.data.name!r} has no part of that model. Nothing was sent. Name the store with it: models = ..."
            )
        part = json.loads(path.read_text(encoding="utf-8"))
        if (part.get("format"), part.get("version"), part.get("party")) != ("colonnade part", 1, self.data.name):
            raise InvalidInput(f"{path} is not this party's part of a model. Nothing was sent.")
        return part

    def keep(self, run: str, scores: NDArray[np.float64], agreement: Agreement | None) -> None:
        """Write the scores down, beside the keys of their rows."""
        import polars as pl

        frame = pl.DataFrame({"score": scores})
        if agreement is not None:
            keys = self.data.keys_in_order(agreement)
            frame = frame.insert_column(0, keys.alias("key") if keys.name == "score" else keys)
        body = io.BytesIO()
        frame.write_parquet(body)
        path = self.store / "scores" / f"{run}.parquet"
        path.parent.mkdir(exist_ok=True)
        write_synced(path, body.getvalue(), private=True)
