"""Hugging Face's models beside what is counted of a pass, and of the cache."""

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import DeepseekV3Config, DynamicCache, FalconConfig, LlamaConfig

from gpulab.serving.costs import Chunk, parts
from tests.llamas import llama
from tests.serving.test_costs import SMALL


def test_a_llama_of_transformers_computes_these_products():
    """A prompt, a piece behind it, then one token; the counter counts each score, masked or not."""
    policy, cache = llama(SMALL), DynamicCache()
    for chunk in (Chunk(0, 7), Chunk(7, 4), Chunk(11, 1)):
        with FlopCounterMode(display=False) as counter, torch.inference_mode():
            policy(torch.zeros(2, chunk.new, dtype=torch.int64), past_key_values=cache, logits_to_keep=1)
        masked = 4 * SMALL.layers * SMALL.queries * chunk.new * (chunk.new - 1) // 2 * 2
        work = parts(SMALL, [chunk] * 2)
        assert counter.get_total_flops() == work["linear layers"].flops + work["attention"].flops + masked


def test_caches_of_three_architectures_have_the_sizes_that_the_chapter_names():
    ours, falcon, latent = LlamaConfig(), FalconConfig(), DeepseekV3Config()  # of 7B, of 7B, of 671B
    heads = ours.num_attention_heads, ours.num_key_value_heads, ours.hidden_size // ours.num_attention_heads
    assert (ours.num_hidden_layers, *heads) == (32, 32, 32, 128)
    assert falcon.multi_query and falcon.num_hidden_layers == 32
    assert falcon.hidden_size // falcon.num_attention_heads == 64
    assert (latent.num_hidden_layers, latent.kv_lora_rank, latent.qk_rope_head_dim) == (61, 512, 64)
