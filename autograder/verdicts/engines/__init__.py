"""Chapter "Serving engines": its exercises, in order."""

from autograder.verdicts.engines.block_allocator import block_allocator as block_allocator
from autograder.verdicts.engines.chunked_prefill import chunked_prefill as chunked_prefill
from autograder.verdicts.engines.continuous_batcher import continuous_batcher as continuous_batcher
from autograder.verdicts.engines.paged_attention import paged_attention as paged_attention
from autograder.verdicts.engines.place_phases import place_phases as place_phases
from autograder.verdicts.engines.prefix_cache import prefix_cache as prefix_cache
