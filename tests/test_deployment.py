"""Claims about the files of `examples/` for containers: of the form that their readers expect, with commands that this
version has, probes that its page answers, and nothing that runs as root or holds a key."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import polars as pl
import pytest
import typer
import yaml
from typer.testing import CliRunner

import colonnade as co
from colonnade.cli import app
from colonnade.network.status_page import StatusPage
from tests.helpers.organisations import free_port

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

EXAMPLES = Path(__file__).parent.parent / "examples"
COMPOSE = yaml.safe_load((EXAMPLES / "compose.yaml").read_text())
PARTY = yaml.safe_load((EXAMPLES / "kubernetes-party.yaml").read_text())
# The entries of the two formats that the files use, and the kind of each: what is not here is not in them by mistake.
SERVICE = {
    "image": str, "command": list, "volumes": list, "ports": list, "environment": dict, "restart": str,
    "stop_grace_period": str, "healthcheck": dict, "read_only": bool, "tmpfs": list, "cap_drop": list,
    "security_opt": list, "mem_limit": str, "pids_limit": int, "logging": dict,
}  # fmt: skip
HEALTH = {"test": list, "interval": str, "timeout": str, "start_period": str}
CONTAINER = {
    "name": str, "image": str, "args": list, "env": list, "livenessProbe": dict, "readinessProbe": dict,
    "resources": dict, "securityContext": dict, "volumeMounts": list,
}  # fmt: skip
POD = {
    "automountServiceAccountToken": bool, "terminationGracePeriodSeconds": int, "securityContext": dict,
    "containers": list, "volumes": list,
}  # fmt: skip
SET = {
    "replicas": int, "serviceName": str, "selector": dict, "template": dict, "volumeClaimTemplates": list,
}  # fmt: skip
PROBE = {"exec": dict, "initialDelaySeconds": int, "periodSeconds": int, "timeoutSeconds": int}


def check(entries: dict[str, Any], form: dict[str, type]) -> None:
    for name, value in entries.items():
        assert type(value) is form[name], name


def parses(words: list[str]) -> click.Context:
    """The command that the words call, if this version understands every one of them."""
    group, rest = typer.main.get_command(app), list(words)
    while isinstance(group, click.Group) or hasattr(group, "commands"):
        group = group.commands[rest.pop(0)]
    return group.make_context(words[-1], rest)


def asks(command: list[str]) -> str:
    """The path that a probe asks for; the program in it compiles."""
    program = command[command.index("-c") + 1]
    compile(program, "probe", "exec")
    found = re.search(r"'127\.0\.0\.1', \d+, timeout=5\); c\.request\('GET', '(/\w+)'\)", program)
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_service_of_the_compose_file_has_entries_of_their_kind_and_a_command_that_exists(name: str) -> None:
    assert set(COMPOSE) == {"services"}
    found = COMPOSE["services"][name]
    check(found, SERVICE)
    check(found["healthcheck"], HEALTH)
    assert parses(found["command"]).command.name == found["command"][1]
    assert StatusPage().answer(asks(found["healthcheck"]["test"])).status == 200
    assert (found["read_only"], found["cap_drop"], found["security_opt"]) == (True, ["ALL"], ["no-new-privileges:true"])
    assert all(re.fullmatch(r"\d+[smg]|\d+m", found[entry]) for entry in ("stop_grace_period", "mem_limit"))
    for volume in found["volumes"]:
        assert re.fullmatch(r"\$\{[A-Z]+:\?[^}]+\}:/party", volume)  # whoever forgets a folder is told which


def test_draining_ends_before_the_container_is_killed() -> None:
    found = COMPOSE["services"]["coordinator"]
    drain = parses(found["command"]).params["drain"]
    assert 60 * int(found["stop_grace_period"].removesuffix("m")) > drain


def test_the_manifest_is_one_stateful_set_of_one_party_with_entries_of_their_kind() -> None:
    assert (PARTY["apiVersion"], PARTY["kind"], set(PARTY)) == (
        "apps/v1",
        "StatefulSet",
        {"apiVersion", "kind", "metadata", "spec"},
    )
    spec = PARTY["spec"]
    pod = spec["template"]["spec"]
    check(spec, SET)
    check(pod, POD)
    check(pod["containers"][0], CONTAINER)
    assert spec["replicas"] == 1  # two processes of one party would each end the other's stream
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert spec["volumeClaimTemplates"][0]["spec"]["accessModes"] == ["ReadWriteOncePod"]


def test_the_partys_pod_runs_a_command_that_exists_is_probed_and_holds_no_key_of_its_own() -> None:
    pod = PARTY["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert parses(container["args"]).command.name == "run"
    page = StatusPage()
    for probe in ("livenessProbe", "readinessProbe"):
        check(container[probe], PROBE)
        assert page.answer(asks(container[probe]["exec"]["command"])).status == 200
    assert (
        asks(container["livenessProbe"]["exec"]["command"]) == "/health"
    )  # to wait for others is no reason to restart
    volumes = {
        one["name"] for one in (*pod["volumes"], *(x["metadata"] for x in PARTY["spec"]["volumeClaimTemplates"]))
    }
    assert {one["name"] for one in container["volumeMounts"]} == volumes
    (keys,) = [one["secret"] for one in pod["volumes"] if "secret" in one]
    assert (keys["defaultMode"] & 0o007, pod["securityContext"]["runAsNonRoot"]) == (0, True)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["automountServiceAccountToken"] is False


# ---------------------------------------------------------------- what the manifest's own commands start

KUBECTL = """#!/bin/sh
printf '%s\\n' "$@" END >> "$SAID"
"""


def cluster_of(home: Path, folder: Path) -> dict[str, dict[str, bytes]]:
    """What the commands of the manifest's head make of a party's folder: objects, by name, and the files in them."""
    head = (EXAMPLES / "kubernetes-party.yaml").read_text().partition("apiVersion")[0]
    commands = [line.removeprefix("#   ") for line in head.splitlines() if line.startswith("#   kubectl ")]
    kubectl = folder / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    said = folder / "said"
    around = {**os.environ, "PATH": f"{kubectl.parent}:{os.environ['PATH']}", "SAID": str(said)}
    made: dict[str, dict[str, bytes]] = {}
    for command in commands:
        said.write_text("")
        subprocess.run(["sh", "-ec", command], cwd=home, env=around, check=True)
        words = said.read_text().split("\n")[:-2]
        match words:
            case ["create", "secret", "generic", name, *sources] | ["create", "configmap", name, *sources]:
                assert all(source.startswith("--from-file=") for source in sources)
                places = [home / source.removeprefix("--from-file=") for source in sources]
                files = [one for place in places for one in (sorted(place.iterdir()) if place.is_dir() else [place])]
                made[name] = {one.name: one.read_bytes() for one in files}
            case ["apply", "-f", "kubernetes-party.yaml"] | ["exec", "hospital-0", "--", "colonnade", *_]:
                if words[0] == "exec":
                    assert parses(words[4:]).command.name == words[5]
            case _:
                raise AssertionError(f"what does kubectl {' '.join(words)} do?")
    return made


def mounted(files: dict[str, bytes], place: Path) -> None:
    """Files as a kubelet mounts them: links to links."""
    hidden = place / "..2026"
    hidden.mkdir(parents=True)
    (place / "..data").symlink_to(hidden.name)
    for name, content in files.items():
        (hidden / name).write_bytes(content)
        (hidden / name).chmod(0o440)
        (place / name).symlink_to(f"..data/{name}")


def test_the_manifests_own_commands_give_its_pod_all_that_it_needs_to_start(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    for name, column in (("clinic", "age"), ("hospital", "crp")):
        co.Schema((co.Numeric(column, 0, 120),)).to_toml(tmp_path / f"{name}.toml")
    parties = [word for name in ("clinic", "hospital") for word in ("--party", f"{name}={tmp_path / name}.toml")]
    place = ["--on", "pid", "--label", "clinic.back", "--hub", f"localhost:{free_port()}"]
    founded = CliRunner().invoke(app, ["federation", "new", str(tmp_path / "study"), *parties, *place])
    assert founded.exit_code == 0, founded.stderr
    home, text = tmp_path / "study" / "hospital", (EXAMPLES / "kubernetes-party.yaml").read_text()
    named = dict(re.findall(r'(\w+) = ("[^"]+"|\d+)', text.partition("apiVersion")[0]))
    assert set(named) == {"store", "key", "certs", "metrics", "approve", "source"}
    port = free_port()
    settings = (home / "party.toml").read_text()
    for name, value in named.items():
        line = f"{name} = {port if name == 'metrics' else value}"
        settings, there = re.subn(rf"^{name} = .*$", line, settings, flags=re.MULTILINE)
        settings = settings if there else line + "\n" + settings
    (home / "party.toml").write_text(settings)

    objects, pod = cluster_of(home, tmp_path), PARTY["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    root = tmp_path / "pod"
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    for volume in pod["volumes"]:
        found = volume.get("configMap", {}).get("name") or volume.get("secret", {}).get("secretName")
        if found is not None:
            mounted(objects[found], root / mounts[volume["name"]].strip("/"))
    (root / "store").mkdir()
    pl.DataFrame({"pid": range(600), "crp": [float(n % 100) for n in range(600)]}).write_parquet(
        root / "store" / "table.parquet"
    )
    file = root / "files" / "..data" / "party.toml"  # its places, as this machine has them
    file.chmod(0o640)
    file.write_text(re.sub(r'"/(store|keys|files)\b', rf'"{root}/\1', file.read_text()))

    tool = [sys.executable, "-c", "from colonnade.cli import main; main()"]
    words = [str(root / word.strip("/")) if word.startswith("/") else word for word in container["args"]]
    with subprocess.Popen([*tool, *words], stderr=subprocess.PIPE, text=True, cwd=root) as party:
        try:
            assert party.stderr is not None
            first = next(iter(party.stderr.readline, ""), "")
            assert json.loads(first)["event"] == "ready", first
            alive = [word.replace("9464", str(port)) for word in container["livenessProbe"]["exec"]["command"]]
            assert subprocess.run([sys.executable, *alive[1:]], check=False).returncode == 0
        finally:
            party.terminate()
        party.stderr.read()
    assert party.returncode == 0


# ---------------------------------------------------------------- the formats' own schemas


@pytest.mark.slow
def test_the_compose_file_keeps_the_schema_of_the_compose_specification() -> None:
    """As published by its authors, and carried by check-jsonschema; a slip is noticed."""
    jsonschema = pytest.importorskip("jsonschema", reason="pip install 'colonnade[schemas]'")
    carrier = importlib.util.find_spec("check_jsonschema")
    if carrier is None or carrier.origin is None:
        pytest.skip("pip install 'colonnade[schemas]'")
    carried = Path(carrier.origin).parent / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(carried.read_text())
    jsonschema.validate(COMPOSE, schema)
    slip = copy.deepcopy(COMPOSE)
    next(iter(slip["services"].values()))["volume"] = ["a:/b"]
    with pytest.raises(jsonschema.ValidationError, match="volume"):
        jsonschema.validate(slip, schema)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.28", "1.37"])
def test_the_manifest_keeps_the_strict_schema_of_kubernetes(version: str) -> None:
    """As generated from the interface of that release, and carried by kubernetes-validate; a slip is noticed."""
    kubernetes = pytest.importorskip("kubernetes_validate", reason="pip install 'colonnade[schemas]'")
    kubernetes.validate(PARTY, version, strict=True)
    slip = copy.deepcopy(PARTY)
    slip["spec"]["template"]["spec"]["containers"][0]["livenessProb"] = {}
    with pytest.raises(kubernetes.ValidationError):
        kubernetes.validate(slip, version, strict=True)
