"""How well TinyVLA acts with fewer bytes: a record that ``benchmarks/quantised.py --write`` measures.

A page shows it without running anything::

    from gpulab.model import quantised
    from gpulab.plots.quality import adapted, quality_by_bytes

    quality_by_bytes(quantised.record())     # success against bytes, a point for each format of the weights
    print(quantised.table())                 # the same in numbers
    adapted(quantised.record())              # success in a changed world against bytes that training holds
    print(quantised.adapted_table())
"""

import json
from pathlib import Path

RECORD = Path(__file__).with_name("quantised.json")


def record() -> dict:
    """``weights`` and ``adapted``, a list of points each, and how they were measured. Bytes are those of storages.

    A success is a share of ``episodes``; ``spread`` is its 95 % interval (Wilson), low and high.
    """
    return json.loads(RECORD.read_text("utf-8"))


def interval(successes: int, episodes: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, low and high. Source: Wilson 1927, doi:10.1080/01621459.1927.10502953."""
    z, share = 1.959964, successes / episodes
    middle, wide = (
        share + z * z / (2 * episodes),
        z * (share * (1 - share) / episodes + z * z / (4 * episodes**2)) ** 0.5,
    )
    return (middle - wide) / (1 + z * z / episodes), (middle + wide) / (1 + z * z / episodes)


def table() -> str:
    """A line for each format of the weights: bytes held, bits for each weight of the layers, success."""
    rows = [f"{'weights of the layers':31}{'kB held':>9}{'bits held':>11}{'success':>9}{'95 %':>13}"]
    for point in record()["weights"]:
        rows.append(
            f"{point['name']:31}{point['bytes'] / 1e3:9.0f}{point['bits_held']:11.2f}"
            f"{point['success']:9.1%}{_spread(point):>13}"
        )
    return "\n".join(rows)


def adapted_table() -> str:
    """A line for each way to fine-tune: its rate, what is held for training, and success in the new world.

    One seed each: success in the old world is in the record and not shown, for one run does not say what a way forgets.
    """
    rows = [f"{'what is trained':25}{'rate':>8}{'numbers':>9}{'kB more':>9}{'kB in all':>10}{'new world':>11}"]
    for point in record()["adapted"]:
        more = point["gradient_bytes"] + point["optimizer_bytes"]
        rows.append(
            f"{point['name']:25}{point['rate']:8}{point['trainable']:9,}{more / 1e3:9.0f}"
            f"{(more + point['parameter_bytes']) / 1e3:10.0f}{point['success']:11.1%}"
        )
    return "\n".join(rows)


def _spread(point: dict) -> str:
    return "{:.0%} to {:.0%}".format(*point["spread"])
