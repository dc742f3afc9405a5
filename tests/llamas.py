"""Hugging Face's Llama in the shape of one of ours. For audits: other people's packages are theirs."""

from transformers import LlamaConfig, LlamaForCausalLM

from gpulab.memory.shapes import Shape
from gpulab.model import Config


def llama(shape: Shape | Config, **others) -> LlamaForCausalLM:
    """With weights of its own, and attention that is written out; ``others``: of its configuration."""
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        attn_implementation="eager",
        **others,
    )
    return LlamaForCausalLM(config).eval()
