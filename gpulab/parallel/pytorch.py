"""The schedules of ``torch.distributed.pipelining``, as they run, with no process group and nothing computed."""

from types import SimpleNamespace

from gpulab.parallel.placing import placed

NAMES = ("GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
"""Those of one stage a GPU, then those of several; the last two take exactly two a GPU."""


def of_torch(name: str, gpus: int, microbatches: int, stages_each: int = 1) -> list[list[str | None]]:
    """PyTorch's schedule ``name`` as a table in which each action takes one slot and stands as early as it can.

    Of a forward and a backward pass that PyTorch names together (DualPipeV) the forward pass comes first, as it runs them.
    Raises ValueError where PyTorch does: 1F1B takes no fewer microbatches than stages.
    """
    return placed(orders_of_torch(name, gpus, microbatches, stages_each))


def orders_of_torch(name: str, gpus: int, microbatches: int, stages_each: int = 1) -> list[list[str]]:
    """For each GPU what it runs, in order. Arguments as :func:`of_torch`."""
    from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

    schedule = get_schedule_class(name)
    if issubclass(schedule, PipelineScheduleSingle):
        return [_run(schedule, stage, gpus, microbatches) for stage in range(gpus)]
    stages = [_stage(gpu, gpus * stages_each, gpus) for gpu in range(0, gpus * stages_each, gpus)]
    order = schedule(stages, microbatches, loss_fn=_loss).pipeline_order
    return [[text for action in order[gpu] for text in _texts(action)] for gpu in range(gpus)]


def _texts(action) -> list[str]:
    if action is None:
        return []
    return [str(one) for one in action.sub_actions or (action,)]


def _stage(index: int, stages: int, gpus: int, **has) -> SimpleNamespace:
    return SimpleNamespace(
        stage_index=index,
        num_stages=stages,
        group_size=gpus,
        group_rank=index % gpus,
        group=None,
        submod=None,
        is_first=index == 0,
        is_last=index == stages - 1,
        has_backward=True,
        **has,
    )


def _loss(output: object, target: object) -> None: ...


def _run(schedule: type, index: int, stages: int, microbatches: int) -> list[str]:
    """What a schedule of one stage asks of its stage: it has no list of it that is right for the last stage (torch 2.13)."""
    asked: list[str] = []
    has = {f"get_{way}_{what}_ops": lambda microbatch: [] for way in ("fwd", "bwd") for what in ("send", "recv")}
    stage = _stage(
        index,
        stages,
        stages,
        **has,
        forward_one_chunk=lambda microbatch, *_, **__: asked.append(f"{index}F{microbatch}"),
        backward_one_chunk=lambda microbatch, **_: asked.append(f"{index}B{microbatch}"),
        perform_reduce_grad=lambda scale: None,
    )
    made = schedule(stage, microbatches, loss_fn=_loss)
    made._initialize_stage = lambda *_: None
    nothing = [()] * microbatches
    made._step_microbatches(nothing, [{}] * microbatches, nothing)
    return asked
