"""Figures of latency against load: what a server sustains, and where it saturates."""

import matplotlib.pyplot as plt

from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style


def latency_and_load(found: list[dict], caption: str) -> Figure:
    """Times to the first token in ms (median, 99th percentile) and requests answered a second, by requests sent a second.

    ``found`` is the ``load`` of :func:`gpulab.serving.http.record.record`, a dict for each rate. Raises ValueError if it is
    empty.
    """
    if not found:
        raise ValueError("no rate was measured: make load-model measures them")
    sent, answered = ([one[key] for one in found] for key in ("requests_per_s", "answered_per_s"))
    first = {name: [one["time_to_first_token_ms"][name] for one in found] for name in ("p50", "p99")}
    with style():
        figure, (times, rates) = plt.subplots(1, 2, figsize=(7.4, 3.2))
        times.semilogy(sent, first["p99"], "--s", color=WARNING, markersize=5, label="99th percentile")
        times.semilogy(sent, first["p50"], "-o", color=ACCENT, markersize=5, label="median")
        times.set_ylabel("to the first token, ms")
        times.legend(frameon=False, fontsize=9)
        rates.plot(sent, sent, color=INK, linewidth=0.6, label="all of them")
        rates.plot(sent, answered, "-o", color=ACCENT, markersize=5, label="answered")
        rates.set_ylabel("requests answered a second")
        rates.legend(frameon=False, fontsize=9)
        for axes in (times, rates):
            axes.set_xlabel("requests sent a second")
            axes.grid(color=INK, alpha=0.15)
        figure.tight_layout()
    told = "; ".join(
        f"{rate:g} sent, {done:g} answered, median {middle:g} ms, 99th percentile {late:g} ms"
        for rate, done, middle, late in zip(sent, answered, first["p50"], first["p99"], strict=True)
    )
    alt = f"Time to the first token, and requests answered a second, against requests sent. {told}."
    return Figure.of(figure, alt=alt, caption=caption)
