"""Chapter "Trading and debugging memory": its exercises, in order."""

from autograder.verdicts.trading.accumulate import accumulate as accumulate
from autograder.verdicts.trading.caching_allocator import caching_allocator as caching_allocator
from autograder.verdicts.trading.choose_segments import choose_segments as choose_segments
from autograder.verdicts.trading.classify_growth import classify_growth as classify_growth
