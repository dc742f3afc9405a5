"""pyproject.toml, constraints.txt and environment.yml say the same."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
PINS = {
    canonicalize_name(name): pin
    for name, pin in re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.M)
}
_LINES = [*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra)]
REQUIREMENTS = [found for found in map(Requirement, _LINES) if found.name != PROJECT["name"]]
"""Of others: an extra may also name another of its own."""


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_every_dependency_is_pinned_to_a_version_it_allows(requirement):
    assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)])


def test_every_line_of_the_constraints_is_a_pin():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    assert len(lines) == len(PINS) > 100


def test_installed_versions_are_the_pinned_ones():
    for name, pin in PINS.items():
        try:
            assert version(name).split("+")[0] == pin, name
        except PackageNotFoundError:
            continue


def test_conda_takes_the_pinned_torch_and_a_supported_python():
    pins = dict(line.split("=", 1) for line in CONDA if isinstance(line, str) and "=" in line)
    assert pins["pytorch"] == PINS["torch"]
    assert SpecifierSet(PROJECT["requires-python"]).contains(f"{pins['python']}.0")


def test_conda_installs_what_make_installs():
    (pip,) = [entry["pip"] for entry in CONDA if isinstance(entry, dict)]
    installed = re.search(r"--editable \.\[([\w,]+)\]", " ".join(pip)).group(1)
    assert "--constraint constraints.txt" in pip
    assert set(installed.split(",")) <= set(EXTRAS)
    assert f"$(TOOLS): extras := {installed.replace(',', ' ')}\n" in (ROOT / "Makefile").read_text()
