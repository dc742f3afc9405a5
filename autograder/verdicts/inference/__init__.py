"""Chapter "Anatomy of LLM inference": its exercises, in order."""

from autograder.verdicts.inference.cached_attention import cached_attention as cached_attention
from autograder.verdicts.inference.intensity import intensity as intensity
from autograder.verdicts.inference.kv_bytes import kv_bytes as kv_bytes
