"""``plan()``: does a model train or serve on a card, and what holds the bytes when the most is held."""

from dataclasses import dataclass

from gpulab.cards.cards import Card, card_named
from gpulab.memory import activations as saved
from gpulab.memory.job import STATE_BLOCK, WEIGHT_BLOCK, Job

GIB, GB = 1 << 30, 10**9
CONTEXT = 1343 << 20
"""Bytes that a process takes by its first tensor: a V100 under driver 460 and CUDA 11.2 (``mem-ctx-v100`` of
``evidence/published.yml``). Later CUDA loads kernels when they are first called and takes less: say what yours takes."""
_FIXED = ("parameters", "context", "reserve")


@dataclass(frozen=True)
class Plan:
    """``moments``: by name, the terms in bytes that are held then; the fullest one decides."""

    job: Job
    card: Card
    moments: dict[str, dict[str, int]]

    @property
    def moment(self) -> str:
        """When the most is held."""
        return max(self.moments, key=lambda name: sum(self.moments[name].values()))

    @property
    def terms(self) -> dict[str, int]:
        """What is held at that moment, in bytes; terms of nothing are left out."""
        return {name: count for name, count in self.moments[self.moment].items() if count}

    @property
    def peak(self) -> int:
        """Bytes in all."""
        return sum(self.terms.values())

    @property
    def allocated(self) -> int:
        """The peak without context and reserve: what PyTorch's allocator would be asked for."""
        return self.peak - self.terms.get("context", 0) - self.terms.get("reserve", 0)

    @property
    def capacity(self) -> int:
        """Bytes that the card's driver reports."""
        return self.card.memory_bytes

    @property
    def fits(self) -> bool:
        return self.peak <= self.capacity

    @property
    def binding(self) -> str:
        """The largest term that something can be done about with the same model (``parameters`` and scales
        count where they are not quantised or sharded yet)."""
        free = {name: count for name, count in self.terms.items() if name not in ("context", "reserve")}
        if self.job.weight_bits == 4:
            free = {name: count for name, count in free.items() if name not in ("parameters", "scales")} or free
        return max(free, key=free.get)

    def table(self) -> str:
        """The terms, the sum and the card, in GiB (2**30 bytes) and GB (10**9), in at most 80 columns."""
        lines = [f"{self.moment:<34}{'GiB':>9}{'GB':>9}{'share':>9}"]
        for name, count in sorted(self.terms.items(), key=lambda term: -term[1]):
            mark = "  <- binding" if name == self.binding else ""
            lines.append(f"  {name:<32}{count / GIB:9.2f}{count / GB:9.2f}{count / self.peak:9.1%}{mark}")
        lines.append(f"  {'in all':<32}{self.peak / GIB:9.2f}{self.peak / GB:9.2f}")
        lines.append(f"  {self.card.name[:31]:<32}{self.capacity / GIB:9.2f}{self.capacity / GB:9.2f}")
        spare = self.capacity - self.peak
        said = "fits, and leaves" if self.fits else "does not fit: missing are"
        lines.append(f"  {said:<32}{abs(spare) / GIB:9.2f}{abs(spare) / GB:9.2f}")
        return "\n".join(lines)


def plan(job: Job, card: Card | str, context: int = CONTEXT, reserve: int = 0) -> Plan:
    """The bytes that ``job`` holds on each GPU, term by term.

    context: bytes of the CUDA context. reserve: bytes kept free for what is left out: the allocator's
    unused pieces, workspaces of libraries, communication buffers beside those that sharding names.
    Left out too: tensor, pipeline and context parallelism, offloading, experts, a loss in chunks, compiled
    or fused kernels that save less than PyTorch's operations do, attention masks (small), and
    evaluation. Raises ValueError for a card that is not known.
    """
    card = card_named(card) if isinstance(card, str) else card
    moments = _serving(job) if job.mode == "serve" else _training(job)
    return Plan(job, card, {name: {**terms, "context": context, "reserve": reserve} for name, terms in moments.items()})


def weights(job: Job) -> dict[str, int]:
    """Parameters, their scales, and what training adds to hold them; sharded where the stage says so."""
    shape, size = job.shape, job.bytes.weights
    matrices = shape.layers * shape.layer_matrices
    if job.weight_bits == 16:
        own, scales = size * shape.parameters, 0
    else:
        own = matrices * job.weight_bits // 8 + size * (shape.parameters - matrices)
        scales = 4 * (shape.layers * shape.layer_rows if job.weight_bits == 8 else -(-matrices // WEIGHT_BLOCK))
    own += size * job.adapters
    share = job.world if job.stage == 3 else 1
    return {"parameters": own // share, "scales": scales // share, "gathered weights": _gathered(job)}


def trained(job: Job) -> int:
    """Parameters that train."""
    return job.adapters if job.lora else job.shape.parameters


def optimizer_state(job: Job) -> dict[str, int]:
    count, share = trained(job), job.world if job.stage >= 1 else 1
    state = {"sgd": 0, "adamw": 2 * job.bytes.state * count, "adamw 8-bit": 2 * (count + 4 * -(-count // STATE_BLOCK))}
    return {"master weights": job.bytes.master * count // share, "optimizer": state[job.optimizer] // share}


def _gathered(job: Job) -> int:
    """Stage 3 gathers two layers, one in use and the next, and what is in no layer."""
    if job.stage < 3 or job.world == 1:
        return 0
    shape = job.shape
    each = job.weight_bits / 8 if job.weight_bits < 16 else job.bytes.activations
    return int(2 * each * shape.layer_parameters) + job.bytes.activations * shape.outside


def _training(job: Job) -> dict[str, dict[str, int]]:
    shape, held = job.shape, {**weights(job), **optimizer_state(job)}
    gradients = job.bytes.weights * trained(job) // (job.world if job.stage >= 2 else 1)
    earlier = gradients if job.accumulate else 0
    kept = job.tokens * (shape.layers * saved.kept_layer(job) + saved.last_norm(job)) + _given(job)
    again = job.tokens * saved.layer(job) if job.checkpointing else 0
    passing = job.tokens * saved.transient(job) + _dequantised(job) + _unsharded_gradients(job)
    casts = _casts(job)
    # Its gradient is as large as it is, once for every time that it was read; their sum is written beside them.
    looked_up = 0 if job.lora else min(job.bytes.weights * shape.embedding, gradients)
    layers_own = 0 if job.lora else job.bytes.weights * shape.layer_matrices // 2
    head = 0 if job.lora or not job.logits else job.bytes.weights * shape.embedding
    return {
        "as the backward pass begins": {
            **held,
            "activations": kept,
            "weight casts": casts,
            "logits": job.logits * saved.logits(job),
            "gradients": earlier,
        },
        "in the last layer's backward pass": {
            **held,
            "activations": kept + again,
            "weight casts": casts,
            "temporaries": passing,
            "gradients": max(earlier, min(head + layers_own, gradients)),
        },
        "in the first layer's backward pass": {
            **held,
            "gradients": max(earlier, gradients - looked_up),
            "temporaries": passing,
            "activations": job.tokens * saved.layer(job) // 2 + _given(job),
        },
        "in the embedding's backward pass": {
            **held,
            "gradients": gradients,
            "activations": _given(job),
            "temporaries": looked_up * (shape.embedded if shape.embedded > 1 or job.accumulate else 0),
        },
        "in the optimizer's step": {
            **held,
            "temporaries": _step(job) + _given(job),
            "gradients": gradients * (job.bytes.master or job.bytes.weights) // job.bytes.weights,
        },
    }


def _given(job: Job) -> int:
    """The batch, and pixels as numbers of the activations' size."""
    shape = job.shape
    if shape.read is None or not shape.given:
        return 16 * job.tokens
    return job.batch * shape.given * (1 + job.bytes.activations)


def _casts(job: Job) -> int:
    """Autocast's 16-bit copies of all matrices, which the backward pass reads."""
    if not job.bytes.autocast:
        return 0
    shape = job.shape
    quantised = job.weight_bits < 16
    head = shape.embedding if job.logits else 0
    return 2 * ((0 if quantised else shape.layers * shape.layer_matrices) + head + job.adapters)


def _dequantised(job: Job) -> int:
    """The largest matrix, written out for one product."""
    if job.weight_bits == 16:
        return 0
    return job.bytes.activations * max(into * out for into, out in job.shape.products.values())


def _unsharded_gradients(job: Job) -> int:
    """One layer's gradients before they are summed over the GPUs, and in float32 as they are."""
    if job.stage < 2 or job.lora or job.world == 1:
        return 0
    return (job.bytes.activations + 4) * job.shape.layer_parameters


def _step(job: Job) -> int:
    """AdamW for all tensors at once writes the root of every second moment before it divides."""
    if job.optimizer != "adamw" or not job.foreach:
        return 0
    return job.bytes.state * trained(job) // (job.world if job.stage >= 1 else 1)


def _serving(job: Job) -> dict[str, dict[str, int]]:
    """The cache of the whole batch, filled, while the last prompt is read."""
    shape, size = job.shape, job.bytes.activations
    cache = shape.cached * size * job.tokens
    fused, written_out = 4 * size * shape.queries, 6 * 4 * shape.queries + 2 * 4 * shape.heads * job.length
    attention = fused if job.attention == "fused" else written_out
    passing = max(3 * size * shape.hidden, attention) + 3 * size * shape.width
    logits = 0 if shape.read == 0 else job.batch * shape.vocabulary * size
    held = {**weights(job), "cache": cache, "weight casts": _casts(job)}
    return {
        "while a prompt is read": {**held, "temporaries": job.tokens * passing + _dequantised(job), "logits": logits}
    }
