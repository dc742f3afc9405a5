"""``torch.profiler`` on the virtual device: PyTorch's own Python, fed with modelled events.

With ``ProfilerActivity.CUDA`` every time in the profile is of the modelled clock, the host's
too: operations on the card, the runtime's calls, kernels, copies, waits and ``record_function``
ranges. Work on host tensors costs nothing in the model and is not listed, nor are composite
operations and autograd's nodes. All of an operation's host time stands in its runtime call.
Without that activity PyTorch's profiler runs as it is, on the real host.
"""

from dataclasses import dataclass

import torch.autograd.profiler as frontend
from torch.profiler import ProfilerActivity

from gpulab.compat.profiler import ADD_METADATA, DISABLE, ENABLE, PREPARE, SUPPORTED_ACTIVITIES, TOGGLE
from gpulab.cuda.device import state
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.trace import Result, Trace
from gpulab.cuda.errors import NotModelled

_WITHOUT_KINETO = ("KINETO_GPU_FALLBACK", "NVTX", "ITT", "PRIVATEUSE1")


@dataclass(frozen=True)
class Config:
    """``torch._C._profiler.ProfilerConfig``, whose own fields Python cannot read."""

    state: object
    report_input_shapes: bool
    profile_memory: bool
    with_stack: bool
    with_flops: bool
    with_modules: bool
    real: object


def _configured(original):
    return lambda *options: Config(*options[:6], original(*options))


def install(patches: Patches) -> None:
    """Stand between PyTorch's profiler in Python and its C++."""
    activities = _supported(SUPPORTED_ACTIVITIES[0].value)
    for place in SUPPORTED_ACTIVITIES:
        patches.set(*place, activities)
    patches.set(frontend, "ProfilerConfig", _configured(frontend.ProfilerConfig))
    patches.set(*PREPARE, _prepare(PREPARE.value))
    patches.set(*ENABLE, _enable(ENABLE.value))
    patches.set(*DISABLE, _disable(DISABLE.value))
    patches.set(*TOGGLE, _toggle(TOGGLE.value))
    patches.set(*ADD_METADATA, _add_metadata(ADD_METADATA.value))
    record = frontend.record_function
    patches.set(record, "__enter__", _entering(record.__enter__))
    patches.set(record, "__exit__", _leaving(record.__exit__))


def _supported(original):
    return lambda: {*original(), ProfilerActivity.CUDA}


def _prepare(original):
    def prepare(config, activities, *args, **kwargs):
        if ProfilerActivity.CUDA not in activities:
            return original(config.real, activities, *args, **kwargs)
        _refuse_what_is_missing(config, kwargs)

    return prepare


def _refuse_what_is_missing(config, options: dict) -> None:
    for option in ("profile_memory", "with_modules"):
        if getattr(config, option):
            raise NotModelled(f"torch.profiler with {option}=True and ProfilerActivity.CUDA")
    if options.get("activity_filters") or options.get("activity_filter"):
        raise NotModelled("torch.profiler with a list of activity types")


def _enable(original):
    def enable(config, activities, *args, **kwargs):
        if ProfilerActivity.CUDA not in activities:
            if config.state.name in _WITHOUT_KINETO:
                raise NotModelled(f"the profiler's mode {config.state.name} (use torch.profiler.profile)")
            return original(config.real, activities, *args, **kwargs)
        device = state.device_on()
        if device.trace is not None:
            raise RuntimeError("Profiler is already enabled on this thread")
        device.trace = Trace(device.machine, config, ProfilerActivity.CPU in activities, True)
        device.machine.logs.append(device.trace)

    return enable


def _disable(original):
    def disable():
        device = state.device_on()
        if device.trace is None:
            return original()
        trace, device.trace = device.trace, None
        device.machine.logs.remove(trace)
        trace.finish()
        return Result(trace, device.card)

    return disable


def _toggle(original):
    def toggle(enable, activities):
        if state.device_on().trace is not None:
            raise NotModelled("toggle_collection_dynamic")
        return original(enable, activities)

    return toggle


def _add_metadata(original):
    def add_metadata_json(key: str, value: str) -> None:
        trace = state.device_on().trace
        if trace is None:
            return original(key, value)
        trace.metadata[key] = value

    return add_metadata_json


def _entering(original):
    def __enter__(self):
        trace = state.device_on().trace
        if trace is not None:
            trace.enter_range(self.name)
        return original(self)

    return __enter__


def _leaving(original):
    def __exit__(self, *exc):
        trace = state.device_on().trace
        if trace is not None:
            trace.leave_range()
        return original(self, *exc)

    return __exit__
