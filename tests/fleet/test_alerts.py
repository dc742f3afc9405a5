"""The alert rules are rules, rest on metrics that are there, and fire on what they are for: promtool says so."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from gpulab.fleet.alerts import RULES, metrics_of
from gpulab.fleet.constants import DCGM_DEFAULTS, DCGM_OFF

CASES = Path(__file__).with_name("alerts_cases.yml")
OF_THE_JOB = {"train_steps_total", "train_loss"}
EXPRESSIONS = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    for rule in group["rules"]
}


def promtool(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
    tool = shutil.which("promtool") or pytest.skip(
        "no promtool here: .ci/run takes it from Debian's package prometheus"
    )
    return subprocess.run([tool, *arguments], cwd=cwd, capture_output=True, text=True, env=os.environ | {"TZ": "UTC"})


def test_every_rule_rests_on_what_the_exporter_sends_by_default():
    asked = set().union(*map(metrics_of, EXPRESSIONS.values()))
    assert asked <= set(DCGM_DEFAULTS) | OF_THE_JOB and not asked & set(DCGM_OFF)
    assert all(map(metrics_of, EXPRESSIONS.values())) and len(EXPRESSIONS) == 8


def test_every_rule_is_tried():
    asked = {
        case["alertname"]
        for test in yaml.safe_load(CASES.read_text("utf-8"))["tests"]
        for case in test["alert_rule_test"]
    }
    assert asked == set(EXPRESSIONS)


def test_the_rules_are_rules():
    done = promtool("check", "rules", str(RULES))
    assert done.returncode == 0 and "8 rules found" in done.stdout, done.stdout + done.stderr


def test_the_rules_fire_on_what_they_are_for(tmp_path):
    for file in (RULES, CASES):
        shutil.copy(file, tmp_path)
    done = promtool("test", "rules", CASES.name, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_rule_on_a_counter_that_is_off_never_fires_and_is_found(tmp_path):
    """promtool takes it: a metric that nobody sends is an empty answer, and no error."""
    expression = "increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[10m]) > 0"
    assert metrics_of(expression) <= set(DCGM_OFF)
    (tmp_path / "ecc.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "ecc", "rules": [{"alert": "Ecc", "expr": expression}]}]})
    )
    assert promtool("check", "rules", str(tmp_path / "ecc.yml")).returncode == 0
