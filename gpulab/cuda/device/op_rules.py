"""What each operation does to the machine: a view, an allocation, a kernel, a wait."""

from dataclasses import dataclass

import torch

from gpulab.cards.constants import ROW_SHARE
from gpulab.compat.dispatch import DispatchKey, NumberType, OpOverload, in_cpp, is_composed
from gpulab.cuda.device import kernels, norms, sync_batch_norm
from gpulab.cuda.device.determinism import alert_of
from gpulab.cuda.device.flops import flop_formula, shown_name
from gpulab.cuda.device.tf32 import factors_of

_NO_KERNEL = {
    "aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty",
    "aten::new_empty_strided", "aten::_unsafe_view", "aten::lift", "aten::lift_fresh",
    "aten::resize_", "aten::resize_as_", "aten::set_", "aten::is_same_size", "aten::detach",
    "aten::alias", "aten::_fused_sdp_choice", "aten::_version", "aten::is_pinned",
    "aten::record_stream", "aten::sym_size", "aten::_has_compatible_shallow_copy_type",
    "aten::_reshape_alias", "aten::unfold", "aten::is_set_to",
    "aten::_shape_as_tensor",
}  # fmt: skip

# The host needs what the device computes: a size, whether something holds, an error code. Who answers with a Scalar waits too.
_WAITS = {
    "aten::nonzero", "aten::masked_select", "aten::equal",
    "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::_unique",
    "aten::unique_dim_consecutive", "aten::bincount", "aten::_linalg_check_errors",
    "aten::masked_select_backward", "aten::is_nonzero", "aten::_pack_padded_sequence",
    "aten::_linalg_eigh", "aten::linalg_eig", "aten::_linalg_eigvals", "aten::linalg_lstsq",
    "aten::allclose",
}  # fmt: skip

# They wait where that argument is a tensor, which the host looks into.
_WAITS_FOR = {
    "aten::normal": "std",
    "aten::quantize_per_tensor": "scale",
    "aten::fake_quantize_per_channel_affine_cachemask": "zero_point",
    "aten::segment_reduce": "lengths",
}

_MASKED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
# They write all of their first tensor and read nothing of it.
_OVERWRITES = {
    "aten::copy_",
    "aten::fill_",
    "aten::zero_",
    "aten::normal_",
    "aten::uniform_",
    "aten::random_",
    "aten::bernoulli_",
    "aten::exponential_",
    "aten::_foreach_copy_",
    "aten::_foreach_zero_",
}

# They touch only some elements of their first tensor.
_SPARSE = {
    "aten::embedding", "aten::index", "aten::index_select", "aten::gather", "aten::take",
    "aten::index_put_", "aten::_index_put_impl_", "aten::index_add_", "aten::index_copy_",
    "aten::index_fill_", "aten::scatter_", "aten::scatter_add_", "aten::scatter_reduce_",
}  # fmt: skip
_BY_ROWS = {"aten::_softmax", "aten::_log_softmax", "aten::native_layer_norm", "aten::_fused_rms_norm"}
_RESIZES = {
    "aten::resize_", "aten::resize_as_", "aten::_resize_output_", "aten::set_", "inductor::resize_storage_bytes_",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpRule:
    """What the dispatcher needs to know of one operation, found out once.

    ``writes``: positions of the arguments that it writes; ``writes_by_name``: all of them.
    ``waits``: the host needs its result; ``spares_the_wait``: unless this argument says it. ``scalar``: it answers with an element of a tensor.
    ``may_wait_for_mask``: it waits with a boolean index.
    ``flops``: its formula when it multiplies matrices, which the matrix units then do.
    ``overwrites``: it reads nothing of its first argument. ``sparse``: it touches a few elements of its first tensor. ``random``: where its random numbers come from.
    ``composite``: PyTorch's C++ composes it of other operations; ``composed``: of what this device sees. ``own``: what is
    called in its place; ``compute``: that, or PyTorch's kernel. ``program``: its kernel when somebody else's Python is that. ``refusal``: raises for a dtype that a card refuses.
    ``alert``: raises in deterministic mode, where CUDA has no deterministic kernel.
    ``factors``: what a card may round to TF32. ``memory_share``: of the sustained bandwidth, what its kernel reaches.
    """

    op: OpOverload
    name: str
    view: bool
    kernel: bool
    waits: bool
    spares_the_wait: str
    scalar: bool
    may_wait_for_mask: bool
    resizes: bool
    writes: tuple[int, ...]
    writes_by_name: tuple[str, ...]
    matrix: bool
    flops: object
    random: str
    pointwise: bool
    overwrites: bool
    sparse: bool
    argument_names: tuple[str, ...]
    composite: bool
    composed: bool
    own: object
    compute: object
    program: object
    refusal: object
    alert: object
    factors: object
    memory_share: float


def rule_of(op: OpOverload) -> OpRule:
    """Read the rule of ``op`` off its schema and its tags."""
    schema, name = op._schema, op._schema.name
    arguments = schema.arguments
    written = [i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
    view = not written and bool(schema.returns) and all(r.alias_info is not None for r in schema.returns)
    own = kernels.with_other_dtype(op) or norms.in_float32(op) or sync_batch_norm.kernel_of(op)
    flops, scalar = flop_formula(op), any(isinstance(r.type, NumberType) for r in schema.returns)
    return OpRule(
        op=op,
        name=shown_name(op),
        view=view,
        kernel=not view and not scalar and name not in _NO_KERNEL,
        waits=scalar or _waits(op, name),
        spares_the_wait="output_size" if name == "aten::repeat_interleave" else "",
        scalar=scalar,
        may_wait_for_mask=name in _MASKED,
        resizes=name in _RESIZES or any(a.is_out for a in arguments),
        writes=tuple(i for i in written if not arguments[i].kwarg_only),
        writes_by_name=tuple(arguments[i].name for i in written),
        matrix=flops is not None,
        flops=flops,
        random=_random(op),
        pointwise=_is_pointwise(op, name),
        overwrites=name in _OVERWRITES,
        sparse=name in _SPARSE,
        argument_names=tuple(a.name for a in arguments),
        composed=is_composed(op),
        own=own,
        compute=own or in_cpp(op),
        program=kernels.program_of(op),
        refusal=kernels.refusal_of(schema),
        alert=alert_of(op),
        factors=factors_of(name) if own is None else None,
        memory_share=ROW_SHARE if name in _BY_ROWS else 1.0,
        composite=own is None and not view and not op.has_kernel_for_dispatch_key(DispatchKey.CPU),
    )


def _is_pointwise(op: OpOverload, name: str) -> bool:
    return torch.Tag.pointwise in op.tags or op._overloadname.startswith("Tensor") and name.endswith("_")


def _waits(op: OpOverload, name: str) -> bool:
    if name == "aten::repeat_interleave":
        return op._overloadname == "Tensor"
    if name in _WAITS_FOR:
        return any(a.name == _WAITS_FOR[name] and "Tensor" in str(a.type) for a in op._schema.arguments)
    return name in _WAITS


def _random(op: OpOverload) -> str:
    """How the op draws random numbers: ``argument``, ``default`` generator, or not at all."""
    if torch.Tag.nondeterministic_seeded not in op.tags:
        return ""
    return "argument" if any(a.name == "generator" for a in op._schema.arguments) else "default"
