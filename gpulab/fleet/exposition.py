"""Metrics of GPUs as dcgm-exporter hands them to Prometheus: its default names, in the text format."""

import random
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpulab.fleet.constants import DCGM_DEFAULTS, DCGM_NO_SENSOR, GPUS_PER_NODE


class Sample(NamedTuple):
    """One value of one GPU."""

    name: str
    labels: Mapping[str, str]
    value: float


def exposition(samples: Iterable[Sample]) -> str:
    """The samples as the text that Prometheus scrapes, by metric. Raises KeyError for a name that the default file does not have."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    lines = []
    for name, of_name in by_name.items():
        kind, says = DCGM_DEFAULTS[name]
        lines += [f"# HELP {name} {says}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{{{_labels(sample.labels)}}} {sample.value:g}" for sample in of_name]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    quoted = {key: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for key, value in labels.items()}
    return ",".join(f'{key}="{value}"' for key, value in quoted.items())


def node_metrics(
    node: int, seed: int, busy: bool = True, hot: int | None = None, no_memory_sensor: bool = False
) -> list[Sample]:
    """What a node's eight GPUs report in one scrape, drawn: a card that is busy, or idle; ``hot``: one of them throttles.

    Made up, in the range of what cards report: it is there to be read and alerted on, not to be believed.
    """
    rng, found = random.Random(seed), []
    for gpu in range(GPUS_PER_NODE):
        labels = {"gpu": str(gpu), "UUID": f"GPU-{node:04x}-{gpu}", "Hostname": f"node-{node}"}
        throttled = gpu == hot
        values = {
            "DCGM_FI_DEV_GPU_TEMP": 89 if throttled else rng.randint(58, 66) if busy else rng.randint(30, 36),
            "DCGM_FI_DEV_MEMORY_TEMP": DCGM_NO_SENSOR if no_memory_sensor else rng.randint(70, 80),
            "DCGM_FI_DEV_SM_CLOCK": 1110 if throttled else 1980 if busy else 345,
            "DCGM_FI_DEV_POWER_USAGE": rng.randint(520, 680) if busy else rng.randint(68, 75),
            "DCGM_FI_DEV_GPU_UTIL": 100 if busy else 0,
            "DCGM_FI_DEV_XID_ERRORS": 0,
            "DCGM_FI_DEV_FB_USED": rng.randint(70_000, 78_000),
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 0,
        }
        found += [Sample(name, labels, value) for name, value in values.items()]
    return found
