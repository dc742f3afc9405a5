# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: nbgrader,tags
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Number formats and mixed precision: exercises
#
# What is graded is every bit of a result, and what the machine did: in which dtype an
# operation ran, which steps were taken, where the host waited.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read the table: it
# shows what your code did. `gpulab.observe()` works on any code of yours.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import gpulab
import gpulab.cuda
import torch

runtime = gpulab.cuda.use("virtual:H100")

# %% [markdown]
# ## E8.1 `round_to` and `float_fields`
#
# Hardware rounds every number that it stores. PyTorch's casts do so for the formats that have a `torch.dtype`; most
# formats of recent years have none. Write two functions, in one cell.
#
# A format is `fmt`, a tuple `(exponent_bits, mantissa_bits, reserved)`: a sign bit, `exponent_bits` from 2 to 8,
# `mantissa_bits` from 1 to 23. Its exponent bias is `2 ** (exponent_bits - 1) - 1`. A bit pattern whose exponent field is 0
# is zero or subnormal. `reserved` says what the largest exponent field, all ones, means (with 8 exponent bits it is
# always `"ieee"`):
#
# | `reserved` | bit patterns with the largest exponent field | result of an overflow | example |
# | --- | --- | --- | --- |
# | `"ieee"` | infinity (mantissa 0) and NaN (any other) | infinity | fp16 `(5, 10, "ieee")` |
# | `"nan"` | numbers; NaN where the mantissa is all ones too | the largest number (saturation) | fp8 e4m3 `(4, 3, "nan")` |
# | `"none"` | numbers | the largest number (saturation) | fp4 e2m1 `(2, 1, "none")` |
#
# Write `round_to(x, fmt)`:
#
# - [c1] `x`: a float32 or float64 tensor on the host, of any shape and strides, zero-dimensional and empty ones included. It may
#   hold any bit pattern: signed zeros, subnormal numbers, infinities, NaN;
# - [c2] returns a new tensor of `x`'s shape and dtype. Each element is the nearest number of `fmt`, subnormal numbers included. `x` is
#   left unchanged;
# - [c3] so for a float32 `x` the result in TF32, `(8, 10, "ieee")`, is float32, too: 32 bits in memory, the 13 lowest of them 0;
# - [c4] a tie goes to the number whose last mantissa bit is 0 (round to nearest even);
# - [c5] a zero keeps its sign, and so does a number that rounds to zero;
# - [c6] each element is rounded once: a float64 number is not rounded to float32 first (double rounding);
# - [c7] a number overflows if it lies beyond the largest number of `fmt` *after* rounding, as if the exponent had no upper bound. It
#   becomes what the table says, with the sign of `x`. An infinity overflows in every format;
# - [c8] every NaN, whatever its sign and payload, becomes a NaN, with any sign and payload;
# - [c9] raises `TypeError` when `x` has another dtype, and `ValueError` when `reserved` is `"none"` and an element is NaN: such a
#   format has no pattern for it.
#
# Write `float_fields(x, fmt)`:
#
# - [c10] returns the bits of `round_to(x, fmt)` as a tuple of three `torch.int32` tensors of `x`'s shape, and raises what `round_to`
#   raises. They are the sign (0 or 1), the exponent field (as stored, with the bias) and the mantissa field (without the hidden
#   bit, the implicit leading 1). A NaN may have any pattern that the table calls NaN, with either sign.
#
# No PyTorch dtype does this for all formats (the cast to e4m3 saturates since PyTorch 2.12, and gave NaN before), and the hidden
# tests draw formats that have no name.
# No PyTorch dtype does this for all formats, and the hidden tests draw formats that have no name.

# %% nbgrader={"grade": false, "grade_id": "round_to", "locked": false, "schema_version": 3, "solution": true, "task": false}
def round_to(x, fmt):
    """Each element of x as the nearest number of fmt, in a new tensor like x."""
    ### BEGIN SOLUTION
    exponent_bits, mantissa_bits, reserved = fmt
    if x.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"float32 or float64 is due, not {x.dtype}")
    if reserved == "none" and x.isnan().any():
        raise ValueError(f"{fmt} has no pattern for NaN")
    bias = 2 ** (exponent_bits - 1) - 1
    wide = x.double()
    step = torch.exp2(exponent_of(wide, bias).double() - mantissa_bits)
    rounded = torch.round(wide / step) * step
    largest = 2.0 ** (bias + (reserved != "ieee")) * (2 - 2.0**-mantissa_bits * (1 + (reserved == "nan")))
    beyond = torch.inf if reserved == "ieee" else largest
    return torch.where(rounded.abs() > largest, beyond * wide.sign(), rounded).to(x.dtype)


def exponent_of(wide, bias):
    """The power of two at or below each number; where numbers are subnormal, that of the least normal one."""
    return torch.frexp(wide.abs().clamp(min=2.0 ** (1 - bias))).exponent - 1
    ### END SOLUTION


def float_fields(x, fmt):
    """Sign, exponent field and mantissa field of round_to(x, fmt), three int32 tensors."""
    ### BEGIN SOLUTION
    exponent_bits, mantissa_bits, _ = fmt
    bias = 2 ** (exponent_bits - 1) - 1
    value = round_to(x, fmt).double()
    finite = torch.where(value.isfinite(), value, 0).abs()
    exponent = exponent_of(finite, bias)
    steps = finite / torch.exp2(exponent.double() - mantissa_bits)
    # The hidden 1 is 2**mantissa_bits steps: it makes the exponent field of a normal number one larger.
    pattern = (exponent + bias - 1) * 2**mantissa_bits + steps.int()
    pattern[value.isinf()] = (2**exponent_bits - 1) * 2**mantissa_bits
    pattern[value.isnan()] = 2 ** (exponent_bits + mantissa_bits) - 1
    return value.signbit().int(), pattern >> mantissa_bits, pattern % 2**mantissa_bits
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "round_to_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_round_to():
    """Numbers rounded to six formats, their bit fields, and PyTorch's casts."""
    formats = {
        "tf32": (8, 10, "ieee"),
        "bf16": (8, 7, "ieee"),
        "fp16": (5, 10, "ieee"),
        "e5m2": (5, 2, "ieee"),
        "e4m3": (4, 3, "nan"),
        "e2m1": (2, 1, "none"),
    }
    x = torch.tensor([0.1, 1 + 2**-11, 2.5, -464.0, -465.0, 65519.99, 65520.0, 3e-8, 6e-8, -1e-46, torch.inf])
    print(f"{'':12}" + "".join(f"{name:>22}" for name in formats))
    shown = {}
    for name, fmt in formats.items():
        shown[name] = round_to(x, fmt)
        assert shown[name].shape == x.shape, f"{name}: the shape is {tuple(shown[name].shape)}, expected x's, {tuple(x.shape)}"
        assert shown[name].dtype == x.dtype, f"{name}: the dtype is {shown[name].dtype}, expected x's, {x.dtype}"
    fields = {name: torch.stack(float_fields(x, fmt)).T.tolist() for name, fmt in formats.items()}
    for row, value in enumerate(x.tolist()):
        line = f"{value:<12.6g}"
        for name, (exponent_bits, mantissa_bits, _) in formats.items():
            sign, exponent, mantissa = fields[name][row]
            bits = f"{sign}|{exponent:0{exponent_bits}b}|{mantissa:0{mantissa_bits}b}"
            line += f"{bits:>22}"
        print(line)
        print(f"{'':12}" + "".join(f"{shown[name][row].item():>22.8g}" for name in formats))

    dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16, "e5m2": torch.float8_e5m2}
    for name, dtype in dtypes.items():
        right = x.to(dtype).float()
        for value, due, found in zip(x.tolist(), right.tolist(), shown[name].tolist()):
            assert str(due) == str(found), f"{name}: {value!r} becomes {found!r}; PyTorch's cast gives {due!r}"
    assert shown["e4m3"].tolist()[2:6] == [2.5, -448, -448, 448], f"e4m3: {shown['e4m3'].tolist()[2:6]}, but overflow saturates at 448"
    four_bits = round_to(torch.tensor([-0.25, 0.26, 2.5, 3.5, 7.0, -100.0]), (2, 1, "none"))
    assert str(four_bits.tolist()) == "[-0.0, 0.5, 2.0, 4.0, 6.0, -6.0]", f"fp4 e2m1: {four_bits.tolist()}, expected [-0.0, 0.5, 2.0, 4.0, 6.0, -6.0]"
    patterns = torch.arange(-(2**15), 2**15).to(torch.int16)
    numbers = patterns.view(torch.float16).float()
    sign, exponent, mantissa = float_fields(numbers, (5, 10, "ieee"))
    same = (sign << 15 | exponent << 10 | mantissa) == patterns.int() % 2**16
    print(f"{(same | numbers.isnan()).sum()} of 65536 patterns of fp16 have the right fields")
    assert (same | numbers.isnan()).all(), "fp16: the fields of some numbers differ from those of their bit patterns"


_see_round_to()

# %% nbgrader={"grade": true, "grade_id": "round_to_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of round_to: nearest 2, small numbers 1, large numbers 2, rounded once 1, TF32 1, fields 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("precision.round_to")
### END HIDDEN TESTS

# %% [markdown]
# ## E8.2 `dynamic_scaler`
#
# Small gradients underflow in float16. Multiplying the loss by a scale before the backward pass keeps them. The best scale is
# the largest one that does not overflow, and only trying finds it: this is dynamic loss scaling. PyTorch has
# `torch.amp.GradScaler`; here you write your own, with limits on the scale that PyTorch's does not have. Neither that class nor
# its kernels (`torch._amp_...`) may be used.
#
# Write `dynamic_scaler(init_scale=65536.0, growth_interval=2000)`:
#
# - [c1] returns an object with the methods below. `get_scale()` returns its scale, a Python `float`, at first `init_scale`;
# - [c2] raises `ValueError` unless `init_scale` is from 1 to `2.0**24` and `growth_interval` is 1 or more.
#
# The other methods, in the order in which a training step calls them. Parameters are on the card or on the host. A step may use
# several optimizers; each is unscaled and stepped separately:
#
# - [c3] `scale(loss)`: returns the loss times the scale, in float32 and attached to the autograd graph. `loss` is a tensor of no
#   dimensions in float32, float16 or bfloat16. It may be called more than once before a step;
# - [c4] `unscale_(optimizer)`: divides the gradients of all the optimizer's parameter groups by the scale, in place, and checks each
#   element for inf and NaN. Gradients are float32; some may be None, but not all;
# - [c5] `step(optimizer, max_norm=None)`: calls `unscale_` unless it has been called. Then it clips the optimizer's gradients to
#   `max_norm`, if that is given, as `torch.nn.utils.clip_grad_norm_` does, calls `optimizer.step()`, and returns `True`;
# - [c6] if `unscale_` found an inf or a NaN, `step` skips the step and returns `False`: parameters and optimizer state stay unchanged,
#   bit for bit. What `unscale_` found decides, even if the caller changes the gradients before `step`;
# - [c7] `update()`: ends the step. If `unscale_` found an inf or a NaN for any optimizer, stepped or not, the scale is halved, once, to
#   no less than 1 (backoff);
# - [c8] after `growth_interval` updates in a row without inf or NaN, the scale is doubled, to no more than `2.0**24`, whatever the size
#   of the gradients. The count restarts at 0 after each halving and each doubling, also where a limit keeps the scale as it is;
# - [c9] a call out of order raises `RuntimeError` and changes nothing: since the last update, `unscale_` of an optimizer that has been
#   unscaled (by `step`, too), `step` of one that has been stepped, and `update` when none has been unscaled;
# - [c10] on the card **the host waits at most once for each optimizer**, from `scale` to `update`, however many parameters there are.

# %% nbgrader={"grade": false, "grade_id": "dynamic_scaler", "locked": false, "schema_version": 3, "solution": true, "task": false}
def dynamic_scaler(init_scale=65536.0, growth_interval=2000):
    """A loss scaler that halves after inf or NaN and doubles after growth_interval clean steps."""
    ### BEGIN SOLUTION
    if not 1 <= init_scale <= 2**24 or growth_interval < 1:
        raise ValueError(f"a scale of {init_scale} that grows after {growth_interval} steps")
    return Scaler(init_scale, growth_interval)


class Scaler:
    """Between two updates, ``_finite`` says of each optimizer that was unscaled what was found."""

    def __init__(self, scale, growth_interval):
        self._scale, self._growth_interval = float(scale), growth_interval
        self._clean, self._finite, self._stepped = 0, {}, set()

    def get_scale(self):
        return self._scale

    def scale(self, loss):
        return loss.float() * self._scale

    def unscale_(self, optimizer):
        if optimizer in self._finite:
            raise RuntimeError("these gradients are unscaled already")
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        torch._foreach_div_(gradients, self._scale)
        # It stays on the device until a step needs it.
        self._finite[optimizer] = torch.stack([gradient.isfinite().all() for gradient in gradients]).all()

    def step(self, optimizer, max_norm=None):
        if optimizer in self._stepped:
            raise RuntimeError("this optimizer has been stepped: update comes first")
        if optimizer not in self._finite:
            self.unscale_(optimizer)
        self._stepped.add(optimizer)
        self._finite[optimizer] = bool(self._finite[optimizer])
        if self._finite[optimizer]:
            if max_norm is not None:
                parameters = [p for group in optimizer.param_groups for p in group["params"]]
                torch.nn.utils.clip_grad_norm_(parameters, max_norm)
            optimizer.step()
        return self._finite[optimizer]

    def update(self):
        if not self._finite:
            raise RuntimeError("no optimizer has been unscaled since the last update")
        self._clean = self._clean + 1 if all(self._finite.values()) else 0
        if self._clean == 0:
            self._scale = max(self._scale / 2, 1.0)
        elif self._clean == self._growth_interval:
            self._scale, self._clean = min(self._scale * 2, 2.0**24), 0
        self._finite.clear()
        self._stepped.clear()
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "dynamic_scaler_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_dynamic_scaler():
    """Eight steps, some of which overflow: the scale, the steps taken, and the host waits."""
    weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
    bias = torch.nn.Parameter(torch.ones(2, device="cuda"))
    weight.register_hook(lambda gradient: gradient.half().float())  # a backward pass in float16
    optimizer = torch.optim.Adam([weight, bias], lr=0.01)
    scaler = dynamic_scaler(init_scale=65536.0, growth_interval=3)
    took, scales = [], []
    for size in (2.0, 2.0, 1e-7, 1e-7, 1e-7, 1e-7, torch.nan, 0.1):
        optimizer.zero_grad()
        before = weight.tolist()
        torch.cuda.synchronize()
        with gpulab.observe() as seen:
            scaled = scaler.scale((weight * size).sum() + bias.sum())
            scaled.backward()
            took.append(scaler.step(optimizer, max_norm=1.0))
            scaler.update()
        scales.append(scaler.get_scale())
        norm = torch.cat([weight.grad, bias.grad]).norm().item()
        print(f"gradient {size:<7.1g} step {took[-1]!s:6} scale after {scales[-1]:<8g} norm {norm:<6.3g} host waits {len(seen.waits)}")
        assert scaled.dtype == torch.float32 and scaled.shape == (), f"scale returned {scaled.dtype}, {tuple(scaled.shape)}: expected float32, ()"
        assert len(seen.waits) <= 1, f"{len(seen.waits)} host waits in a step, expected at most 1; the last: {seen.waits[-1].line}"
        assert took[-1] or weight.tolist() == before, "the step was skipped, but a parameter changed"
        assert not took[-1] or norm < 1.001, f"the gradient norm is {norm:g} after a step, expected at most max_norm = 1"

    assert took == [False, False, True, True, True, True, False, True], f"steps taken: {took}, expected [False, False, True, True, True, True, False, True]"
    assert scales == [32768, 16384, 16384, 16384, 32768, 32768, 16384, 16384], f"scales: {scales}, expected [32768, 16384, 16384, 16384, 32768, 32768, 16384, 16384]"
    steps = optimizer.state[weight]["step"].item()
    assert steps == 5, f"Adam's step count is {steps:g}, expected 5: three of the eight steps are skipped"


_see_dynamic_scaler()

# %% nbgrader={"grade": true, "grade_id": "dynamic_scaler_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of dynamic_scaler: gradients 2, skipped steps 2, growth 2, halving 1, clipping 1, host waits 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("precision.dynamic_scaler")
### END HIDDEN TESTS

# %% [markdown]
# ## E8.3 `amp_step`
#
# From here on the code runs on a virtual card, whose values are real; `gpulab.cuda.use("real")` in a
# cell of your own lets the same code run on a GPU. Below is a loop as it is often posted: bfloat16, and a
# `GradScaler`. It trains. Run it, and read the dtype in which each operation ran, and where the host waited.

# %% nbgrader={"grade": false, "grade_id": "amp_sample", "locked": true, "schema_version": 3, "solution": false, "task": false}
from torch.nn.functional import cross_entropy

gpulab.cuda.use("virtual:H100")


def _show_amp_sample():
    """The training step of the notes, and the dtypes that autocast chose."""
    from collections import Counter

    class Reader(torch.nn.Module):
        """Rows of readings to logits of classes."""

        def __init__(self, readings, classes):
            super().__init__()
            self.norm = torch.nn.LayerNorm(readings)
            self.mix, self.head = torch.nn.Linear(readings, readings), torch.nn.Linear(readings, classes)

        def forward(self, x):
            x = self.mix(self.norm(x))
            return self.head(torch.softmax(x, -1) * x)

    def a_reader():
        """A model, its optimizer, and a batch whose readings differ by less than bfloat16's spacing at 1000."""
        torch.manual_seed(8)
        model = Reader(readings=16, classes=6).cuda()
        batch = (1000 + torch.randn(24, 16)).cuda(), torch.randint(6, (24,)).cuda()
        torch.cuda.synchronize()
        return model, torch.optim.SGD(model.parameters(), lr=0.5), batch

    def dtypes_of(seen):
        """How often each operation on autocast's lists gave a result of each dtype."""
        about = ("aten.mm", "aten.addmm", "aten._softmax", "aten.native_layer_norm", "aten._log_softmax", "aten.nll_loss_forward")
        return Counter((op.op, op.dtype) for op in seen.ops if op.op in about)

    model, optimizer, (x, y) = a_reader()
    scaler = torch.amp.GradScaler("cuda")
    with gpulab.observe() as seen:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    for (operation, dtype), times in dtypes_of(seen).items():
        print(f"{operation:24} {dtype:9} x{times}")
    print(*(f"the host waited at: {wait.line}" for wait in seen.waits), sep="\n")
    return a_reader, dtypes_of


_a_reader, _dtypes_of = _show_amp_sample()

# %% [markdown]
# bfloat16 has the exponent range of float32, so no gradient underflows that loss scaling could save; the scaler costs a
# host wait and passes over the gradients. float16 needs it. Write
# `amp_step(model, optimizer, batch, dtype, scaler=None, max_norm=None)`, one training step in mixed
# precision:
#
# - [c1] `model`: a float32 module on the device; `model(x)` gives logits of shape `(n, classes)`. Some parameters may not require
#   gradients. Those that do all take part in the loss, and `optimizer` has them, in one group or in several (not fused);
# - [c2] `batch`: a pair `(x, y)` on the device, `x` in float32, `y` the classes. The model is called once, with `x` itself: it
#   distinguishes values that are equal in 16 bits;
# - [c3] **matrix products run in `dtype`**, `torch.bfloat16` or `torch.float16`; **softmax, normalisation and all of the loss**, the
#   `cross_entropy` of the logits, **in float32**. Autocast takes care of all but one of these: see which in the table above;
# - [c4] the backward pass runs outside of autocast, and no autocast region is open afterwards;
# - [c5] with float16, `scaler`, an enabled `torch.amp.GradScaler`, scales the loss, unscales the gradients, takes or skips the step, and
#   updates its scale, once each. With bfloat16 none of its methods is called, even if one is passed;
# - [c6] `max_norm`: `None`, or the maximum norm, 0 or more, of the unscaled gradients of all parameters together (the global norm). If
#   theirs is greater, they are scaled down to it, as `clip_grad_norm_` does;
# - [c7] gradients that the model's parameters hold from before, frozen ones too, are dropped: neither accumulated into nor filled with
#   zeros, since the caller may still hold those tensors;
# - [c8] **afterwards the parameters are float32, and each `.grad` is this step's gradient**, float32, unscaled and clipped, even where
#   the scaler skipped the step;
# - [c9] returns this step's loss, not scaled: a float32 tensor of no dimensions on the device, detached. **The host waits for nothing**
#   except inside `scaler.step`;
# - [c10] raises `ValueError`, before anything has run or changed, for any other `dtype`, and for float16 without a scaler.

# %% nbgrader={"grade": false, "grade_id": "amp_step", "locked": false, "schema_version": 3, "solution": true, "task": false}
def amp_step(model, optimizer, batch, dtype, scaler=None, max_norm=None):
    """One step in mixed precision; the loss, on the device."""
    ### BEGIN SOLUTION
    if dtype not in (torch.bfloat16, torch.float16):
        raise ValueError(f"mixed precision is bfloat16 or float16 beside float32, not {dtype}")
    if dtype == torch.float16 and scaler is None:
        raise ValueError("small gradients underflow in float16: a scaler is due")
    x, y = batch
    model.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=dtype):
        loss = cross_entropy(model(x).float(), y)
    if dtype == torch.bfloat16:
        loss.backward()
        clip(model, max_norm)
        optimizer.step()
    else:
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip(model, max_norm)
        scaler.step(optimizer)
        scaler.update()
    return loss.detach()


def clip(model, max_norm):
    """Scale the gradients down to max_norm where they are longer, all together."""
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "amp_step_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_amp_step():
    """A step in bfloat16 and one in float16."""
    torch.set_autocast_enabled("cuda", False)  # in case an earlier attempt left it enabled
    for dtype, scaler in ((torch.bfloat16, None), (torch.float16, torch.amp.GradScaler("cuda", init_scale=2.0**12))):
        model, optimizer, batch = _a_reader()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        with gpulab.observe() as seen:
            loss = amp_step(model, optimizer, batch, dtype, scaler, max_norm=0.5)
        print(dtype)
        for (operation, name), times in _dtypes_of(seen).items():
            print(f"  {operation:24} {name:9} x{times}")
        print(f"  {len(seen.waits)} host waits")
        assert isinstance(loss, torch.Tensor) and loss.is_cuda and loss.dim() == 0, f"{loss!r}: expected the loss, of no dimensions, on the device"
        assert not torch.is_autocast_enabled("cuda"), "an autocast region is still open"
        assert not loss.requires_grad, "the loss still holds its autograd graph: detach it"
        assert loss.dtype == torch.float32, f"the loss is {loss.dtype}, expected torch.float32"
        loss_in = {op.dtype for op in seen.ops if op.op in ("aten._log_softmax", "aten.nll_loss_forward", "aten.logsumexp")}
        assert loss_in <= {"float32"}, f"the operations of the loss ran in {loss_in}, expected float32"
        products = {op.dtype for op in seen.ops if op.op in ("aten.mm", "aten.addmm", "aten.bmm")}
        assert products == {str(dtype).removeprefix("torch.")}, f"matrix products ran in {products}, expected {dtype}"
        assert all(p.dtype == torch.float32 == p.grad.dtype for p in model.parameters()), "parameters and gradients must be float32"
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()
        assert norm < 0.501, f"the global norm of the gradients is {norm}, expected at most max_norm = 0.5"
        moved = torch.stack([(p.detach() - old).norm() for p, old in zip(model.parameters(), before)]).norm().item()
        assert abs(moved - 0.5 * norm) < 0.01 * norm, f"the parameters moved by {moved}, expected lr times the gradient norm, {0.5 * norm}"
        assert len(seen.waits) <= (dtype == torch.float16), f"the host waited at: {[str(wait.line) for wait in seen.waits]}"


_see_amp_step()

# %% nbgrader={"grade": true, "grade_id": "amp_step_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of amp_step: dtypes 2, updates 1, scaler 2, clipping 1, host 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("precision.amp_step")
### END HIDDEN TESTS

# %% [markdown]
# ## E8.4 `training_drift`
#
# A weight in bfloat16, and a thousand updates of -0.001. What is the weight at the end? Predict it before
# you run the cell.

# %% nbgrader={"grade": false, "grade_id": "training_drift_sample", "locked": true, "schema_version": 3, "solution": false, "task": false}
_weight = torch.ones(1, dtype=torch.bfloat16, device="cuda")
for _ in range(1000):
    _weight += torch.full((1,), -0.001, device="cuda")
print("1 - 1000 * 0.001 =", _weight.item())

# %% [markdown]
# Write `training_drift(weight, updates)`, which applies all updates to a bfloat16 weight without losing any, and counts how
# many of them a plain sum in bfloat16 would round away:
#
# - [c1] `weight`: a bfloat16 tensor on the device, of any shape and strides. It may be a view of a larger tensor, whose other
#   elements keep their values. It may require gradients, and no graph is built;
# - [c2] `updates`: an iterator over 200 updates at most, or none, to be added to `weight` one after another. Each is a tensor on the
#   device, float32 or bfloat16, of the shape of `weight` and any strides;
# - [c3] all updates share one buffer, as an optimizer's do: an update is valid until you ask for the next one, and you must not write
#   to it;
# - [c4] `weight` is changed in place: **whenever you ask for the next update, and at the end, each element is less than one spacing of
#   bfloat16 (one ulp) away from the exact sum so far**. Stochastic rounding, up or down at random, is right on average only;
# - [c5] returns an int32 tensor of the shape of `weight` on the device: for each element, the number of updates before the first one
#   that moves it, or of all updates if none does. An update moves an element if the element's **initial** value plus the update,
#   rounded to bfloat16, is another number;
# - [c6] whenever you ask for the next update you hold at most **13 bytes of new memory for each element**, including what a variable
#   still refers to. That is room for a float32 copy (a master weight), which is precise enough here, but not for a float64 copy;
# - [c7] **the host waits for nothing**;
# - [c8] raises `ValueError` if `weight` is not bfloat16, before you ask for an update; and if an update has another shape than `weight`,
#   before that one is used, with all updates before it applied.

# %% nbgrader={"grade": false, "grade_id": "training_drift", "locked": false, "schema_version": 3, "solution": true, "task": false}
def training_drift(weight, updates):
    """Apply all updates to a bfloat16 weight; how many of each element's a plain sum would swallow first."""
    ### BEGIN SOLUTION
    if weight.dtype != torch.bfloat16:
        raise ValueError(f"the weight is {weight.dtype}, not bfloat16")
    start = weight.detach().clone()
    master, still = start.float(), torch.ones_like(start, dtype=torch.bool)
    swallowed = torch.zeros_like(start, dtype=torch.int32)
    with torch.no_grad():
        for update in updates:
            if update.shape != weight.shape:
                raise ValueError(f"an update of shape {tuple(update.shape)} for a weight of {tuple(weight.shape)}")
            master += update
            weight.copy_(master)
            still &= (start + update).bfloat16() == start
            swallowed += still
    return swallowed
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "training_drift_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_training_drift():
    """Updates of 0.001 and of 0.01 to weights of 1 and of 256."""

    def one_after_another(values, like):
        """Each value as a tensor of the shape of ``like``, all in one buffer."""
        buffer = torch.empty_like(like, dtype=torch.float32)
        for value in values:
            yield buffer.fill_(value)

    weight = torch.tensor([1.0, 1.0, 256.0], dtype=torch.bfloat16, device="cuda")
    torch.cuda.synchronize()
    with gpulab.observe() as seen:
        swallowed = training_drift(weight, one_after_another([0.001] * 20 + [0.01] * 5, weight))
    print(seen.table().split("\n\n")[-1])
    print("weight   ", weight.tolist(), "\nswallowed", swallowed.tolist())

    due = torch.tensor([1.07, 1.07, 256.07])
    spacing = torch.tensor([2**-7, 2**-7, 2.0])
    assert swallowed.dtype == torch.int32 and swallowed.shape == (3,), f"{swallowed.dtype}, {tuple(swallowed.shape)}: expected int32 of the weight's shape"
    assert ((weight.cpu().float() - due).abs() < spacing).all(), f"the weight is {weight.tolist()}: updates were lost, the exact sums are 1.07, 1.07 and 256.07"
    assert swallowed.tolist() == [20, 20, 25], "expected [20, 20, 25]: 0.001 is less than half an ulp at 1, 0.01 is more; at 256 both are less"
    assert not seen.waits, f"the host waited at: {[str(wait.line) for wait in seen.waits]}"


_see_training_drift()

# %% nbgrader={"grade": true, "grade_id": "training_drift_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of training_drift: drift 2, swallowed 2, memory 1, the caller's tensors 1, host 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("precision.training_drift")
### END HIDDEN TESTS
