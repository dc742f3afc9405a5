"""Runs the learner's functions for the chapter "Serving engines" and records what they did."""

from autograder.scenarios.engines_block_allocator import block_allocator as block_allocator
from autograder.scenarios.engines_chunked_prefill import chunked_prefill as chunked_prefill
from autograder.scenarios.engines_continuous_batcher import continuous_batcher as continuous_batcher
from autograder.scenarios.engines_paged_attention import paged_attention as paged_attention
from autograder.scenarios.engines_place_phases import place_phases as place_phases
from autograder.scenarios.engines_prefix_cache import prefix_cache as prefix_cache

PRELOAD = ("gpulab.cuda.device.install", "gpulab.kernels.tiles.facade")
"""What paged_attention's scenario and its cell of the notebook import on first use."""
