"""The roofline figure: roofs, ridges and kernels where the card's numbers put them."""

import re

import pytest
import torch

from gpulab import observe
from gpulab.cuda import CARDS
from gpulab.plots.roofline import Point, attainable, bound, ridge, roofline
from tests.kernels.tiles import kernels

H100 = CARDS["H100"]


@pytest.mark.parametrize(
    ("key", "fmt", "flop_per_byte"), [("H100", "bf16", 295.3), ("A100", "bf16", 153.0), ("T4", "fp16", 203.5)]
)
def test_the_ridge_is_the_dense_peak_over_the_bandwidth(key, fmt, flop_per_byte):
    assert ridge(CARDS[key], fmt) == pytest.approx(flop_per_byte, rel=1e-3)


def test_left_of_the_ridge_memory_binds_and_right_of_it_arithmetic():
    axpy = Point("axpy", 2 * 10**6, 12 * 10**6)
    product = Point("product", 2 * 4096**3, 3 * 2 * 4096**2, "bf16")
    assert (bound(H100, axpy), bound(H100, product)) == ("memory", "compute")
    assert attainable(H100, axpy) == pytest.approx(3.35e12 / 6)
    assert attainable(H100, product) == 989e12


def test_a_format_changes_the_roof_that_binds():
    work = 100 * 10**6, 10**6
    assert bound(H100, Point("fp32", *work, "fp32")) == "compute"
    assert bound(H100, Point("bf16", *work, "bf16")) == "memory"


def test_a_point_of_a_launch_has_its_counted_flops_and_sectors():
    n = 1024
    x = torch.randn(n)
    with observe() as seen:
        kernels.add[(1,)](x, x, torch.empty(n), n, BLOCK=1024)
    point = Point.of_launch(seen.launches[0])
    assert (point.name, point.flops) == ("add", n)
    assert 12 * n <= point.bytes <= 12 * n + 3 * 32


def test_a_point_of_a_kernel_takes_no_modelled_time():
    import gpulab.cuda

    with gpulab.cuda.use("virtual:H100", quiet=True), observe() as seen:
        torch.ones(1024, device="cuda") + 1
    point = Point.of_kernel(seen.kernels[-1])
    assert (point.flops, point.bytes, point.us) == (1024, 8192, None)


def test_the_words_say_what_the_picture_shows():
    figure = roofline("H100", [Point("axpy", 2, 12), Point("product", 3000, 2, "bf16", us=1e-5)])
    assert "fp32 66.91 TFLOP/s with its ridge at 20 FLOP per byte" in figure.alt
    assert "axpy at 0.167 FLOP per byte, bound by memory, at most 0.558 TFLOP/s." in figure.alt
    assert (
        "product at 1.5e+03 FLOP per byte, bound by compute, measured at 300 TFLOP/s, 30 % of its roof." in figure.alt
    )


def test_only_a_measured_point_is_called_measured():
    counted = roofline("A100", [Point("axpy", 2, 12)])
    assert "measured" not in counted.alt + counted.caption
    assert counted.caption.startswith("Modelled (NVIDIA A100-SXM4-80GB)")
    assert "filled: measured" in roofline("A100", [Point("axpy", 2, 12, us=1.0)]).caption


def test_open_circles_are_counted_and_filled_ones_measured():
    def fills(point):
        return len(re.findall(r"style=\"fill: var\(--gpulab-warning", roofline("H100", [point]).svg))

    assert fills(Point("axpy", 2, 12, us=1.0)) == fills(Point("axpy", 2, 12)) + 1


def test_every_card_has_a_roofline():
    for key in CARDS:
        assert CARDS[key].name in roofline(key, []).alt


def test_roofs_of_one_height_are_one_line():
    svg = roofline("T4", [], formats=("fp32", "tf32")).svg
    assert "fp32, tf32: 8.141 TFLOP/s" in svg


def test_a_format_without_a_peak_is_refused():
    with pytest.raises(ValueError, match="no peak for 'fp4': say one of fp64, fp32"):
        roofline("H100", [Point("new", 1, 1, "fp4")])


@pytest.mark.parametrize(("flops", "nbytes"), [(0, 12), (2, 0)])
def test_a_kernel_without_work_has_no_place(flops, nbytes):
    with pytest.raises(ValueError, match="no place on a roofline"):
        Point("copy", flops, nbytes)
