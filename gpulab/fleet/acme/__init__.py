"""What became of the jobs of five clusters, published by others: see README.md."""

import csv
from pathlib import Path

SUMMARY = Path(__file__).with_name("summary.csv")
ENDS = ("complete", "cancel", "fail")


def shares(of: str) -> dict[str, dict[str, float]]:
    """By cluster and end, the share of GPU jobs (``of="jobs"``) or of GPU time (``"time"``), where it was published."""
    column = {"jobs": "{}_rate_gpu", "time": "{}_rate_gpu_time"}[of]
    rows = list(csv.DictReader(SUMMARY.read_text("utf-8").splitlines()))
    return {
        row["id"]: {end: float(row[column.format(end)]) for end in ENDS} for row in rows if row[column.format("fail")]
    }
