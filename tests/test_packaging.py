"""What a user installs: a wheel with all that it needs and nothing else, which works without extras and tools."""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import polars as pl
import pytest

import colonnade as co
from colonnade.cli.terminal import EXTRAS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "colonnade"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Modules that only extras and development bring; an import of one of them fails as if it were not installed.
WITHOUT = """
import sys
ABSENT = {"ray", "grpc", "adbc_driver_manager", "adbc_driver_sqlite", "adbc_driver_postgresql", "opendp",
          "pyarrow", "pandas", "plotly", "networkx", "matplotlib", "cvxpy", "pytest", "hypothesis", "mkdocs", "playwright", "skl2onnx",
          "starlette", "uvicorn", "prometheus_client"}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""

FIT = """
import numpy as np, polars as pl, colonnade as co
rng = np.random.default_rng(7)
X = rng.normal(size=(60, 4))
left = pl.DataFrame({"key": [f"k{i}" for i in range(60)], "a": X[:, 0], "b": X[:, 1], "late": np.sign(X @ [2, -1, 1, 0])})
right = pl.DataFrame({"key": [f"k{i}" for i in range(59, -1, -1)], "c": X[::-1, 2], "d": X[::-1, 3]})
"""

SAVE = (
    FIT
    + """
import sys
fed = co.Federation.from_frames({"airline": left, "weather": right}, on="key", label=("airline", "late"))
fit = co.fit(fed, co.Problem(co.Logistic(), co.L1Ball(3.0)), co.DistributedFrankWolfe(rounds=8))
fit.save(sys.argv[1])
print(fit.scores({"airline": left.drop("late"), "weather": right}).tobytes().hex())
"""
)

LOAD = (
    FIT
    + """
import sys
fit = co.load(sys.argv[1])
fit.report(sys.argv[2])
print(fit.scores({"airline": left.drop("late"), "weather": right}).tobytes().hex())
"""
)

# Every command's help, in one process; prints how many there are.
HELP = """
import typer
from typer.testing import CliRunner
from colonnade.cli import app
def walk(command, path):
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, [*path, name])
paths = list(walk(typer.main.get_command(app), []))
for path in paths:
    done = CliRunner().invoke(app, [*path, "--help"])
    assert done.exit_code == 0 and "Usage" in done.output, (path, done.output, done.exception)
print(len(paths))
"""

# What is asked of an extra that is not installed, and the words of the refusal.
ASKED = {
    "ray": "co.fit(fed, problem, co.DistributedFrankWolfe(rounds=1), engine=co.Ray())",
    "sql": "co.read('postgresql://reader@localhost/x', query='select 1')",
    "parquet": "co.read(sys.argv[2])",
    "onnx": "fit.to_onnx('model.onnx')",
    "serve": "from colonnade.network.status_page import StatusPage; StatusPage()",
    "plot": "from colonnade.runs.simulate import Simulation; Simulation.plot(None)",
    "grpc": "co.Grpc('localhost:0', co.Tls('a', 'b', 'c')).open(SimpleNamespace(members={}, digest=''))",
}


def python(code: str, *arguments: object, program: str | Path = sys.executable, cwd: Path | None = None) -> str:
    command = [str(program), "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="the wheel's builder is not installed: pip install hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120, cwd=ROOT)
    return next(folder.glob("*.whl"))


# ------------------------------------------------------------------------------------------------ the wheel


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    kept = {path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {f"colonnade/{path.relative_to(SOURCE)}" for path in kept} == held
    pages = {"colonnade/views/style.css", "colonnade/views/templates/report.html", "colonnade/cli/live/live.js"}
    assert {"colonnade/py.typed", *pages} <= held


def test_the_wheel_names_its_licence_its_program_and_its_extras(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = {name.partition(".dist-info/")[2]: archive.read(name).decode() for name in archive.namelist()}
    assert "colonnade = colonnade.cli:main" in info["entry_points.txt"]
    assert any(name.startswith("licenses/LICENSE") for name in info)
    for extra in PROJECT["optional-dependencies"]:
        assert f"Provides-Extra: {extra}" in info["METADATA"]


def test_the_doctor_knows_every_extra_that_a_user_may_want() -> None:
    ours = {"browser", "docs", "papers", "reference", "schemas", "test"}  # for tests, benchmarks and pages
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - ours


def test_the_source_distribution_holds_every_file_that_git_keeps(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="the builder is not installed: pip install hatchling")
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT)
    if listed.returncode != 0:
        pytest.skip("this is no Git repository, so nothing says which files belong to it")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=120, cwd=ROOT)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    kept = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    assert kept <= held
    assert not {name for name in held - kept if Path(name).suffix in (".pyc", ".nbi", ".nbc", ".so")}


# ------------------------------------------------------------------------------------------------ lazy names


def test_importing_the_package_loads_none_of_its_heavy_libraries() -> None:
    heavy = "numpy scipy numba sklearn polars pyarrow plotly networkx dp_accounting cryptography rich pandas ray grpc"
    heavy += " jinja2 starlette uvicorn prometheus_client msgspec"
    loaded = python("import sys, colonnade; print(*{name.partition('.')[0] for name in sys.modules})")
    assert not set(heavy.split()) & set(loaded.split())


def test_readers_type_checkers_and_python_see_the_same_names() -> None:
    tree = ast.parse((SOURCE / "__init__.pyi").read_text(encoding="utf-8"))
    homes = {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    (listed,) = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    assert homes == co.HOMES
    assert sorted(homes) == sorted(co.__all__) == sorted(ast.literal_eval(listed))
    assert set(co.__all__) <= set(dir(co))
    for name in co.__all__:
        assert getattr(co, name) is getattr(co, name)
    with pytest.raises(AttributeError, match="no attribute 'Lassoo'"):
        co.Lassoo  # noqa: B018  the look itself is what is tried


def test_what_a_fit_needs_brings_no_optimisers_and_keeps_functions_callable() -> None:
    """Also where a function's module is imported by its name, which would put the module in the function's place."""
    code = "import sys, colonnade as co, colonnade.attacks.run, colonnade.runs.fit, colonnade.runs.simulate\n"
    code += "from colonnade import audit, fit, simulate\n"
    code += "assert all(map(callable, (audit, fit, simulate)))\n"
    code += "assert (co.audit, co.fit, co.simulate) == (audit, fit, simulate)\n"
    code += "co.Federation, co.PrivateGram; print(*sys.modules)"
    assert not {"sklearn", "scipy.optimize", "scipy.stats", "plotly", "networkx", "jinja2", "uvicorn"} & set(
        python(code).split()
    )


# ------------------------------------------------------------------------------------------------ without extras


def test_without_extras_a_fit_is_saved_and_what_needs_an_extra_names_it(tmp_path: Path) -> None:
    tries = "".join(
        f"\ntry:\n    {call}\nexcept co.InvalidInput as error:\n    print({extra!r}, '|', error)\n"
        for extra, call in ASKED.items()
    )
    setting = "from types import SimpleNamespace\nproblem = co.Problem(co.LeastSquares(), co.L1Ball(1.0))\n"
    stream = tmp_path / "stream.arrow"
    pl.DataFrame({"x": [1]}).write_ipc_stream(stream)
    lines = python(WITHOUT + SAVE + setting + tries, tmp_path / "fit.json", stream).splitlines()[1:]
    said = dict(line.split(" | ", 1) for line in lines)
    assert list(said) == list(ASKED)
    for extra, text in said.items():
        assert f"pip install 'colonnade[{extra}]'" in text
    assert (tmp_path / "fit.json").is_file()


def test_without_extras_tables_are_read_from_csv_parquet_and_arrow_files(tmp_path: Path) -> None:
    frame = pl.DataFrame({"key": ["a", "b", None], "x": [1.5, None, -2.0], "n": [1, 2, 3], "flag": [True, False, None]})
    frame = frame.with_columns(day=pl.Series(["2020-01-01", None, "2021-12-31"]).str.to_date())
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ipc(tmp_path / "t.arrow", compression="zstd")
    code = "import sys, colonnade as co\nfor path in sys.argv[1:]:\n    print(co.read(path).to_init_repr())"
    code += "\nassert not {'pyarrow', 'pandas'} & set(sys.modules)"
    shown = python(WITHOUT + code, *(tmp_path / f"t.{kind}" for kind in ("csv", "parquet", "arrow")))
    assert shown == "\n".join([frame.to_init_repr()] * 3).strip()


# ------------------------------------------------------------------------------------------------ a fresh environment


@pytest.mark.slow
def test_the_wheel_works_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    """Minutes: it downloads all that the base needs. `make wheel` runs it."""
    fresh = tmp_path / "fresh"
    venv.create(fresh, with_pip=True)
    program = fresh / "bin" / "python"
    pip = [str(program), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    reached = subprocess.run([*pip, "download", "--no-deps", "--dest", str(tmp_path), "threadpoolctl"], timeout=120)
    if reached.returncode != 0:
        pytest.skip("the package registry cannot be reached, so nothing can be installed")
    known = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, "install", *known, str(wheel)], check=True, timeout=1200)
    sizes = {path: path.lstat().st_size / 1e6 for path in (fresh / "lib").rglob("*") if path.is_file()}
    compiled = sum(size for path, size in sizes.items() if path.suffix == ".pyc")
    sys.stdout.write(
        f"base install: {sum(sizes.values()):,.0f} MB, of which {compiled:,.0f} MB is code that pip compiled\n"
    )
    by_package: dict[str, float] = {}
    for path, size in sizes.items():
        package = path.relative_to(fresh).parts[3].removesuffix(".libs")
        by_package[package] = by_package.get(package, 0.0) + size
    largest = sorted(by_package.items(), key=lambda item: -item[1])[:9]
    sys.stdout.write("largest, MB: " + ", ".join(f"{package} {size:,.1f}" for package, size in largest) + "\n")
    assert sum(sizes.values()) - compiled < 650  # what `pip install --no-compile` takes
    where = python("import colonnade; print(colonnade.__file__)", program=program, cwd=tmp_path)
    assert Path(where).is_relative_to(fresh)
    saved = python(SAVE, tmp_path / "fit.json", program=program, cwd=tmp_path)
    assert saved == python(LOAD, tmp_path / "fit.json", tmp_path / "report.html", program=program, cwd=tmp_path)
    assert (tmp_path / "report.html").is_file()
    assert int(python(HELP, program=program, cwd=tmp_path)) > 30
    tool = fresh / "bin" / "colonnade"
    doctor = subprocess.run([tool, "doctor", "--json"], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert doctor.returncode == 0, doctor.stdout
    demo = subprocess.run([tool, "demo"], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert (demo.returncode, demo.stdout) == (1, "")
    assert "pip install 'colonnade[demo]'" in demo.stderr
