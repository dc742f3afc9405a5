"""What a forward pass leaves for its backward pass, operation by operation, in bytes a token.

Counted for layers of plain PyTorch operations, as ``gpulab.model.policy`` is written: a norm in float32
that saves what it reads and what it scales, three products for queries, keys and values. Kernels that fuse
a norm or a gate save less. A linear layer saves its input only where its weight trains.
"""

from gpulab.memory.job import Job
from gpulab.memory.shapes import Shape


def layer(job: Job) -> int:
    """Of one layer, without checkpointing."""
    shape = job.shape
    norms = _norms(job) if shape.rms else _layer_norms(job)
    return norms + _inputs(job) + _attention(job) + _mlp(job) + _adapters(job)


def kept_layer(job: Job) -> int:
    """Of one layer, with the job's checkpointing."""
    shape, size = job.shape, job.bytes.activations
    residual = 4 if job.bytes.autocast else size
    if job.checkpointing is True:
        return residual * shape.width
    if job.checkpointing == "selective":
        kept = (shape.queries, shape.keys, shape.hidden, shape.width)  # every second product: q, v, gate, down
        return residual * shape.width + size * (sum(kept) + shape.queries) + 4 * shape.heads
    return layer(job)


def transient(job: Job) -> int:
    """The most that a layer's backward pass holds beside what was saved: gradients of activations.

    When it comes to attention, what the MLP saved is gone.
    """
    shape, size = job.shape, job.bytes.activations
    mlp = size * (2 * shape.hidden + shape.width)
    scores = 2 * 4 * shape.heads * job.length if job.attention == "written out" else size * 3 * shape.queries
    gone = _mlp(job) + (0 if job.lora else size * shape.hidden)
    return max(mlp, scores - gone) + size * shape.width


def last_norm(job: Job) -> int:
    return _norms(job) // 2 if job.shape.rms else job.bytes.activations * job.shape.width


def logits(job: Job) -> int:
    """Of one token whose logits are computed: log-probabilities and two gradients in float32, when the most is held.

    The loss does not keep the logits themselves.
    """
    return 12 * job.shape.vocabulary


def _norms(job: Job) -> int:
    """Two RMS norms: what is squared in float32, its mean's root, and what is scaled where the scale trains."""
    scaled = 0 if job.lora else (4 if job.bytes.autocast else job.bytes.activations)
    return 2 * ((4 + scaled) * job.shape.width + 4)


def _layer_norms(job: Job) -> int:
    """Two layer norms: their inputs, and two statistics each; autocast runs them in float32."""
    size = 4 if job.bytes.autocast else job.bytes.activations
    return 2 * (size * job.shape.width + 8)


def _inputs(job: Job) -> int:
    """Inputs of the linear layers. Autocast casts one for every layer that reads it."""
    if job.lora:
        return 0
    shape, size = job.shape, job.bytes.activations
    copies = (3, 2 if shape.gated else 1) if job.bytes.autocast and shape.rms else (1, 1)
    return size * (sum(copies) * shape.width + shape.queries + shape.hidden)


def _attention(job: Job) -> int:
    shape, size = job.shape, job.bytes.activations
    if job.attention == "fused":
        own_output = shape.queries if job.lora else 0  # else it is the next product's input
        return size * (shape.queries + 2 * shape.keys + own_output) + 4 * shape.heads
    if shape.rms:  # PyTorch's own way without a fused kernel: in float32, keys and values repeated for each head
        repeated = shape.queries if shape.kv_heads < shape.heads or size < 4 else shape.keys
        return 4 * (shape.queries + 2 * repeated) + 4 * shape.heads * job.length
    masks = 1 if shape.dropout else 0
    scores = (4 if job.bytes.autocast else size) + size * (2 if shape.dropout else 1) - size * (1 - masks) + masks
    return size * 3 * shape.queries + shape.heads * job.length * scores


def _mlp(job: Job) -> int:
    """Gate, its SiLU and the way up; or what GELU reads, and two dropouts' masks."""
    shape, size = job.shape, job.bytes.activations
    if shape.gated:
        return 3 * size * shape.hidden
    return size * shape.hidden + (2 * shape.width if shape.dropout else 0)


def _adapters(job: Job) -> int:
    """What LoRA's pairs read: their layer's input, once, and what is between them."""
    if not job.lora:
        return 0
    shape, size = job.shape, job.bytes.activations
    width = job.bytes.weights if not job.bytes.autocast else size
    inputs = {_source(name, shape) for name in job.lora_on}
    return width * (sum(length for _, length in inputs) + job.lora * len(job.lora_on))


def _source(name: str, shape: Shape) -> tuple[str, int]:
    into = shape.products[name][0]
    if name in ("q_proj", "k_proj", "v_proj"):
        return "first norm", into
    return ("second norm", into) if name in ("gate_proj", "up_proj") else (name, into)
