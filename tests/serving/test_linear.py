"""gpulab.serving.Linear, a clock with three constants."""

import pytest

from gpulab.serving import Linear


def test_a_step_is_its_three_parts():
    assert Linear(100, 10, 1).step_us([(1, 50), (4, 0)]) == 100 + 10 * 5 + (50 + 0 + 1 + 2 + 3)
    assert Linear(100, 10).step_us([]) == 100


@pytest.mark.parametrize("numbers", [(0, 0, 5), (-1, 10, 0), (1, 10, -1)])
def test_a_step_takes_time(numbers):
    with pytest.raises(ValueError, match="takes time"):
        Linear(*numbers)
