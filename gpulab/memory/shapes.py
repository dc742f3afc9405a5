"""The shape of a decoder or encoder: all that the planner needs to know of a model."""

from dataclasses import dataclass

from gpulab.model.config import Config


@dataclass(frozen=True)
class Shape:
    """Widths are in elements. The names are those of a Hugging Face configuration, shortened.

    ``gated``: the MLP has a gate beside its way up (Llama), else it is two products with GELU (GPT, BERT).
    ``rms``: norms have a weight and no bias, and compute in float32. ``biases``: linear layers have them.
    ``others``: parameters outside of layers, embedding, head and last norm (positions, eyes).
    ``read``: tokens whose logits are computed, None for all. ``given``: bytes of one sequence of the batch,
    and of what becomes of it before the first layer, that stay until the backward pass.
    ``embedded``: how many times a forward pass looks words up. ``elsewhere``: elements in and out, summed, of linear
    layers that are in no layer (eyes, projector, head): LoRA on every linear layer adapts them too.
    """

    width: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    sequence: int
    head_dim: int = 0
    gated: bool = True
    rms: bool = True
    biases: bool = False
    dropout: bool = False
    tied: bool = False
    others: int = 0
    read: int | None = None
    given: int = 0
    embedded: int = 1
    elsewhere: int = 0

    def __post_init__(self) -> None:
        if not self.head_dim:
            object.__setattr__(self, "head_dim", self.width // self.heads)
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads do not share {self.kv_heads} heads of keys evenly")

    @property
    def queries(self) -> int:
        """Elements of a token's queries."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        """Elements of a token's keys, and of its values."""
        return self.kv_heads * self.head_dim

    @property
    def cached(self) -> int:
        """Elements of a token's keys and values in all layers."""
        return 2 * self.layers * self.keys

    @property
    def products(self) -> dict[str, tuple[int, int]]:
        """The linear layers of one layer: elements that go in, and that come out."""
        products = {
            "q_proj": (self.width, self.queries),
            "k_proj": (self.width, self.keys),
            "v_proj": (self.width, self.keys),
            "o_proj": (self.queries, self.width),
            "up_proj": (self.width, self.hidden),
            "down_proj": (self.hidden, self.width),
        }
        return products | ({"gate_proj": (self.width, self.hidden)} if self.gated else {})

    @property
    def layer_matrices(self) -> int:
        """Elements of one layer's matrices: what is quantised, and what autocast casts."""
        return sum(into * out for into, out in self.products.values())

    @property
    def layer_rows(self) -> int:
        """Rows of one layer's matrices, each an output: what an 8-bit matrix has scales for."""
        return sum(out for _, out in self.products.values())

    @property
    def norm(self) -> int:
        return self.width * (1 if self.rms else 2)

    @property
    def layer_parameters(self) -> int:
        biases = self.layer_rows if self.biases else 0
        return self.layer_matrices + biases + 2 * self.norm

    @property
    def embedding(self) -> int:
        return self.vocabulary * self.width

    @property
    def outside(self) -> int:
        """Parameters of no layer."""
        return self.embedding * (1 if self.tied else 2) + self.norm + self.others

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters + self.outside


def shape_of(config: "Config | Shape") -> Shape:
    """Of a TinyVLA's configuration; a Shape is one already."""
    if isinstance(config, Shape):
        return config
    eyes = (3 * config.patch**2 + 1 + config.patches) * config.width
    pixels = 3 * config.image**2
    return Shape(
        config.width,
        config.layers,
        config.heads,
        config.kv_heads,
        config.hidden,
        config.vocabulary,
        sequence=config.prefix + config.action_length - 1,
        others=eyes,
        read=config.action_length,
        given=pixels + 8 * (config.text_length + config.action_length),
        embedded=2,
    )


def _gpt(width: int, layers: int, heads: int, vocabulary: int = 50_257, sequence: int = 2048, **others) -> Shape:
    return Shape(
        width,
        layers,
        heads,
        heads,
        4 * width,
        vocabulary,
        sequence,
        gated=False,
        rms=False,
        biases=True,
        tied=True,
        **{"others": sequence * width, **others},
    )


# Of BERT beside words: places, two segments, a norm after them, the pooler and its class of two.
_BERT_OTHERS = 512 * 1024 + 2 * 1024 + 2 * 1024 + 1024 * 1024 + 1024 + 2 * 1024 + 2 - 2 * 1024
# Of OpenVLA beside its decoder: all of its 7,541,237,184 parameters less the decoder's; and of its towers, projector
# and head what LoRA adapts, counted layer by layer in tests/book/test_claims_memory.py.
_OPENVLA_OTHERS = 7_541_237_184 - 6_738_939_904
_OPENVLA_ELSEWHERE = 896_792 + 31_872 + 36_160
SHAPES = {
    "GPT-2": _gpt(768, 12, 12, sequence=1024, dropout=True),
    "GPT-2 XL": _gpt(1600, 48, 25, sequence=1024, dropout=True),
    "GPT-3 175B": _gpt(12_288, 96, 96),
    "BERT-large": _gpt(1024, 24, 16, 30_522, 512, others=_BERT_OTHERS, dropout=True, read=0),
    "Llama 2 7B": Shape(4096, 32, 32, 32, 11_008, 32_000, 4096),
    "Llama 2 13B": Shape(5120, 40, 40, 40, 13_824, 32_000, 4096),
    "Llama 2 70B": Shape(8192, 80, 64, 8, 28_672, 32_000, 4096),
    "Llama 3.1 8B": Shape(4096, 32, 32, 8, 14_336, 128_256, 8192),
    "Llama 3.1 70B": Shape(8192, 80, 64, 8, 28_672, 128_256, 8192),
    "Llama 3.2 3B": Shape(3072, 28, 24, 8, 8192, 128_256, 8192, head_dim=128, tied=True),
    "OpenVLA 7B": Shape(4096, 32, 32, 32, 11_008, 32_064, 294, others=_OPENVLA_OTHERS, elsewhere=_OPENVLA_ELSEWHERE),
}
"""Published models, from the configuration files that their makers publish. Of OpenVLA the decoder of a Llama 2 7B is
planned, with 256 patches and some forty words; two vision towers and a projector count with their parameters and adapters,
and what they keep for their backward pass is left out."""

_TORCHTUNE = "pytorch/torchtune ({}), torchtune/models/{}/_model_builders.py: {}"
LLAMAS = {
    "Llama 2 7B": _TORCHTUNE.format("00a080a", "llama2", "llama2_7b; hidden by scale_hidden_dim_for_mlp"),
    "Llama 2 13B": _TORCHTUNE.format("00a080a", "llama2", "llama2_13b"),
    "Llama 2 70B": _TORCHTUNE.format("00a080a", "llama2", "llama2_70b"),
    "Llama 3.1 8B": _TORCHTUNE.format("1934adb", "llama3_1", "llama3_1_8b"),
    "Llama 3.1 70B": _TORCHTUNE.format("1934adb", "llama3_1", "llama3_1_70b"),
}
"""Of :data:`SHAPES` those that are served in the course, each with where its widths can be read without a licence."""
