"""The planner against peaks that others measured on GPUs: ``python -m gpulab.memory.validation``.

Every entry of the group ``peak-memory`` in ``evidence/published.yml`` is planned as its source says it was run.
What was counted differs: bytes that tensors held (allocated), all that the allocator had taken (reserved), or all that the
driver had given away (``nvidia-smi``). A plan says what is allocated; against ``nvidia-smi`` the context that was measured
on BERT-large's machine is added.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpulab.memory.job import Job
from gpulab.memory.planner import CONTEXT, plan
from gpulab.memory.shapes import SHAPES
from gpulab.published import Measurement, measurements

UNITS = {"GB": 10**9, "GiB": 1 << 30, "MiB": 1 << 20}
NEAR = 0.1
_SHARDED = (
    "this is max_reserved, the plan says allocated. And from 8 to 128 GPUs the source's peaks fall by 15 GiB: 16 bytes a "
    "parameter, so gradients are among what its peak holds; the planner holds none yet as the backward pass begins"
)
WHY = {
    "mem-lora-l2-7b-nf4": "the source holds 2 GB more beside its 4-bit weights than beside its 16-bit ones (14.1 - 4.1 GB, "
    "21.3 - 13.5 GB); it does not say what",
    "mem-lora-l2-13b-nf4": "as the 7B one: more is held beside 4-bit weights than beside 16-bit ones",
    "titan-8b-fsdp8-mem": _SHARDED + "; and not compiled: the compiled run holds 5.4 GiB less",
    "titan-8b-fsdp8-compile-mem": _SHARDED,
    "titan-8b-fsdp128-mem": "this is max_reserved, the plan says allocated; and not compiled: the compiled run of the same job holds 5 GiB less, and is met",
    "titan-8b-cp1-mem": _SHARDED + "; float8 copies are not planned",
    "titan-8b-cp4-mem": "this is max_reserved, the plan says allocated; else as without context parallelism: a rank has as many tokens, and state is sharded over all ranks",
    "ao-8b-bf16-mem": _SHARDED,
    "ao-8b-fp8-mem": _SHARDED + "; float8 copies are not planned",
    "mem-bertlarge-train-v100": "nvidia-smi's figure: it counts what the allocator keeps unused, which the planner does not know",
    "mem-bertlarge-amp-b4": "nvidia-smi's figure, with what the allocator keeps unused",
    "mem-bertlarge-adam8-b4": "nvidia-smi's figure, with what the allocator keeps unused",
    "tune-ladder-ac": "compiled, with the loss in chunks: the planner counts all logits at once",
}
"""For those further off than a tenth: what the source says of the run, or what its own figures show beside each other."""


@dataclass(frozen=True)
class Row:
    """One measurement beside the plan, in bytes."""

    measurement: Measurement
    job: Job
    planned: int

    @property
    def published(self) -> float:
        return self.measurement.value * UNITS[self.measurement.unit]

    @property
    def ratio(self) -> float:
        return self.planned / self.published

    @property
    def counted(self) -> str:
        """What the source counted: allocated, reserved or nvidia-smi; empty where it does not say."""
        return self.measurement.workload.get("counted", "")

    @property
    def near(self) -> bool:
        return abs(self.ratio - 1) <= NEAR


def rows() -> list[Row]:
    """Every published peak that is planned. Raises LookupError for an entry that no rule knows."""
    found = []
    for measured in measurements():
        if measured.group == "peak-memory" and measured.id != "mem-ctx-v100":
            job, context = _job(measured)
            found.append(Row(measured, job, plan(job, "H100", context=context).peak))
    return found


def table(found: list[Row] | None = None) -> str:
    """Published, planned and their ratio, the nearest first, with reasons for those far off; 80 columns."""
    found = sorted(rows() if found is None else found, key=lambda row: abs(row.ratio - 1))
    lines = [f"{'measurement':34}{'counted':>11}{'published':>14}{'planned':>14}{'ratio':>7}"]
    for row in found:
        unit = row.measurement.unit
        planned = row.planned / UNITS[unit]
        lines.append(
            f"{row.measurement.id:34}{row.counted:>11}{row.measurement.value:9.5g} {unit:4}{planned:9.5g} {unit:4}{row.ratio:7.2f}"
        )
    near = sum(row.near for row in found)
    lines.append(f"{near} of {len(found)} are within 10 %")
    return "\n".join(lines)


def reasons(found: list[Row] | None = None) -> dict[str, str]:
    """Why, for each that is further off than 10 %. Raises LookupError where no reason is known."""
    return {row.measurement.id: WHY[row.measurement.id] for row in (found or rows()) if not row.near}


def _job(measured: Measurement) -> tuple[Job, int]:
    for start, build in _RULES.items():
        if measured.id.startswith(start):
            return build(measured.workload)
    raise LookupError(f"no rule plans {measured.id}")


def _generation(work: dict[str, Any]) -> tuple[Job, int]:
    """A short prompt and a short answer: the cache is small whatever their length."""
    return Job(SHAPES[work["model"]], "serve", sequence=128, weight_bits=4 if "nf4" in work["weights"] else 16), 0


def _adapted(work: dict[str, Any]) -> tuple[Job, int]:
    shape = SHAPES[work["model"]]
    rank = work["trainable_parameters"] // Job(shape, lora=1).adapters
    bits = 4 if "nf4" in work["base_dtype"] else 16
    return Job(shape, batch=work["micro_batch"], sequence=work["longest_seq"], lora=rank, weight_bits=bits), 0


def _policy(work: dict[str, Any]) -> tuple[Job, int]:
    """OpenVLA's own script: every linear layer is adapted, gradients of earlier batches are kept."""
    shape = SHAPES[work["model"]]
    return Job(
        shape,
        batch=work["micro_batch"],
        lora=work["rank"],
        lora_on=tuple(shape.products),
        accumulate=work["grad_accum"] > 1,
    ), CONTEXT


def _sharded(work: dict[str, Any]) -> tuple[Job, int]:
    """torchtitan: float32 weights, gathered in bfloat16; of a sequence a rank has its share."""
    shape = SHAPES[work["model"].replace("Llama 3 8B", "Llama 3.1 8B")]
    checkpointing = "selective" if "selective" in work["checkpointing"] else True
    return Job(
        shape,
        batch=work["micro_batch"],
        sequence=work["seq"] // work.get("context_parallel", 1),
        precision="mixed bf16",
        checkpointing=checkpointing,
        stage=3,
        world=work["gpus"],
    ), 0


def _tuned(work: dict[str, Any]) -> tuple[Job, int]:
    """torchtune: packed sequences, all in bfloat16; its AdamW is fused."""
    checkpointing = "checkpointing" in work["technique"]
    return Job(
        SHAPES[work["model"]], batch=work["batch"], sequence=work["max_seq"], checkpointing=checkpointing, foreach=False
    ), 0


def _bert(work: dict[str, Any]) -> tuple[Job, int]:
    """Hugging Face's Trainer of 2022: attention written out, an AdamW tensor by tensor."""
    shape = SHAPES["BERT-large"]
    if "seq" not in work:
        return Job(shape, "serve", sequence=1, precision="fp32"), CONTEXT
    return Job(
        shape,
        batch=work.get("micro_batch") or work["batch"],
        sequence=work["seq"],
        precision="mixed fp16" if work["dtype"].startswith("amp") else "fp32",
        optimizer="adamw 8-bit" if "8-bit" in work["optimizer"] else "adamw",
        checkpointing=work["checkpointing"],
        attention="written out",
        foreach=False,
        accumulate=work.get("grad_accum", 1) > 1,
    ), CONTEXT


_RULES: dict[str, Callable[[dict[str, Any]], tuple[Job, int]]] = {
    "mem-infer-": _generation,
    "mem-openvla-": _policy,
    "mem-lora-": _adapted,
    "titan-": _sharded,
    "ao-": _sharded,
    "tune-": _tuned,
    "mem-bertlarge-": _bert,
}

if __name__ == "__main__":
    print(table(), *(f"{id}: {why}" for id, why in reasons().items()), sep="\n")
