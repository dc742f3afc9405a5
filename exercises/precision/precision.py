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
# Hardware rounds every number that it stores. PyTorch does so for the formats that it has a dtype for; most
# formats of the last years it has none for. Two functions, in one cell.
#
# A format is `fmt`, a tuple `(exponent_bits, mantissa_bits, reserved)`: a sign bit, `exponent_bits` from 2 to 8,
# `mantissa_bits` from 1 to 23. Its bias is `2 ** (exponent_bits - 1) - 1`. A pattern whose exponent field is 0
# is zero or subnormal. `reserved` says what the largest exponent field, all ones, means (with 8 exponent bits it is
# always `"ieee"`):
#
# | `reserved` | patterns with the largest exponent field | beyond the largest number | example |
# | --- | --- | --- | --- |
# | `"ieee"` | infinity (mantissa 0) and NaN (any other) | infinity | fp16 `(5, 10, "ieee")` |
# | `"nan"` | numbers; NaN where the mantissa too is all ones | the largest number | fp8 e4m3 `(4, 3, "nan")` |
# | `"none"` | numbers | the largest number | fp4 e2m1 `(2, 1, "none")` |
#
# Write `round_to(x, fmt)`:
#
# - `x`: a tensor on the host, float32 or float64, of any shape and strides, of no dimensions or no elements too.
#   Every pattern may occur: signed zeros, subnormal numbers, infinities, NaN;
# - returns a tensor of `x`'s shape and dtype; its elements are numbers of `fmt`. So a TF32 number,
#   `(8, 10, "ieee")`, lies in 32 bits, as on the hardware, and its 13 last ones are 0;
# - each is the nearest number of `fmt`, subnormal ones included; of two equally near the one whose last mantissa
#   bit is 0;
# - each is rounded once: a float64 number is not made a float32 one on the way;
# - a zero keeps its sign, and a number that becomes zero keeps it too;
# - overflow is decided after rounding, as if exponents went on: what would round to a number beyond the largest becomes
#   what the table says, with the sign of `x`. (PyTorch's cast to e4m3 does so since 2.12, and gave NaN before);
# - an infinity is beyond the largest number. NaN stays NaN, with any sign and payload;
# - `x` is left as it is, and the result has memory of its own;
# - raises `ValueError` when `reserved` is `"none"` and an element is NaN: there is no pattern for it;
# - raises `TypeError` when `x` has another dtype.
#
# Write `float_fields(x, fmt)`:
#
# - returns a tuple of three tensors of `x`'s shape, `torch.int32`: the sign (0 or 1), the exponent field (as stored, with the
#   bias) and the mantissa field (without the hidden 1) of `round_to(x, fmt)`;
# - a NaN's fields are any pattern that the table calls NaN, with either sign;
# - raises what `round_to` raises.
#
# No PyTorch dtype does this for all formats, and the hidden tests draw formats that nobody has named.

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
    """Numbers in six formats, their fields, and PyTorch's casts."""
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
        assert shown[name].shape == x.shape, f"{name}: the shape is {tuple(shown[name].shape)}, {tuple(x.shape)} is due"
        assert shown[name].dtype == x.dtype, f"{name}: the dtype is {shown[name].dtype}; the result is of x's, {x.dtype}"
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
    assert shown["e4m3"].tolist()[2:6] == [2.5, -448, -448, 448], "e4m3 goes to 448, and not beyond"
    four_bits = round_to(torch.tensor([-0.25, 0.26, 2.5, 3.5, 7.0, -100.0]), (2, 1, "none"))
    assert str(four_bits.tolist()) == "[-0.0, 0.5, 2.0, 4.0, 6.0, -6.0]", f"fp4: {four_bits.tolist()}"
    patterns = torch.arange(-(2**15), 2**15).to(torch.int16)
    numbers = patterns.view(torch.float16).float()
    sign, exponent, mantissa = float_fields(numbers, (5, 10, "ieee"))
    same = (sign << 15 | exponent << 10 | mantissa) == patterns.int() % 2**16
    print(f"{(same | numbers.isnan()).sum()} of 65536 patterns of fp16 have the right fields")
    assert (same | numbers.isnan()).all(), "the fields of an fp16 number are not those of its pattern"


_see_round_to()

# %% nbgrader={"grade": true, "grade_id": "round_to_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of round_to: nearest 2, small numbers 1, large numbers 2, rounded once 1, TF32 1, fields 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("precision.round_to")
### END HIDDEN TESTS

# %% [markdown]
# ## E8.2 `dynamic_scaler`
#
# Gradients that float16 would lose are kept by a loss that is scaled up. How far? As far as it goes without overflow,
# which only trying tells. PyTorch brings `torch.amp.GradScaler`; here you write one, with limits that PyTorch's
# does not have. Neither that class nor its kernels (`torch._amp_...`) may be used.
#
# Write `dynamic_scaler(init_scale=65536.0, growth_interval=2000)`:
#
# - returns an object with the five methods below. Its scale is `init_scale` at first;
# - raises `ValueError` unless `init_scale` is from 1 to `2.0**24` and `growth_interval` 1 or more.
#
# The object's methods, in the order in which a step calls them, with parameters on the card or on the host:
#
# - `scale(loss)`: `loss` is a tensor of no dimensions, float32, float16 or bfloat16; returns the loss times the scale,
#   float32, through which gradients flow. It may be called more than once before a step;
# - `unscale_(optimizer)`: divides the gradients of the optimizer's parameters, float32 tensors, by the scale, in place. The parameters are
#   in one group or in several. A gradient may be None; that all are does not happen. It finds out whether each element is finite;
# - `step(optimizer, max_norm=None)`: calls `unscale_` unless that is done. If an inf or a NaN was found, it takes no step: parameters and
#   the optimizer's state stay as they are, bit for bit. Else it clips the gradients to `max_norm`, if that is given, as
#   `torch.nn.utils.clip_grad_norm_` does, and calls `optimizer.step()`. Returns whether it took the step, a `bool`;
# - what `unscale_` found decides, also where the caller changes the gradients between `unscale_` and `step`, as by clipping them;
# - `update()`: ends the step. If any optimizer's gradients were found not finite, stepped or not, the scale halves, once, to no less
#   than 1. After `growth_interval` updates in a row without that it doubles, to no more than `2.0**24`. Either way the counting
#   begins anew. How large the gradients are does not matter;
# - `get_scale()`: the scale, a Python `float`.
#
# There may be several optimizers in a step, each of which is unscaled and stepped by itself. Beyond that:
#
# - `RuntimeError` is due, and nothing changes, when `unscale_` or `step` is called for an optimizer that has been stepped since the last
#   update, when `unscale_` is called for one that has been unscaled, and when `update` is called though none has been unscaled;
# - on the card **the host waits at most once for each optimizer**, from `scale` to `update`, however many parameters there are.

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
    """Eight steps, of which some overflow: the scale, what was taken, and the host's waits."""
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
        assert scaled.dtype == torch.float32 and scaled.shape == (), f"scale gave {scaled.dtype} of shape {tuple(scaled.shape)}"
        assert len(seen.waits) <= 1, f"{len(seen.waits)} host waits in a step: {seen.waits[-1].line}"
        assert took[-1] or weight.tolist() == before, "the step was skipped, and a parameter has changed"
        assert not took[-1] or norm < 1.001, f"the norm of the gradients is {norm:g} and not the 1 that they are clipped to"

    assert took == [False, False, True, True, True, True, False, True], f"steps taken: {took}"
    assert scales == [32768, 16384, 16384, 16384, 32768, 32768, 16384, 16384], f"scales: {scales}"
    steps = optimizer.state[weight]["step"].item()
    assert steps == 5, f"Adam has counted {steps:g} steps; 5 were taken"


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
# cell of your own lets the same code run on a GPU. Below is a loop as it goes around: bfloat16, and a
# `GradScaler`. It trains. Run it, and read in which dtype each operation ran, and where the host waited.

# %% nbgrader={"grade": false, "grade_id": "amp_sample", "locked": true, "schema_version": 3, "solution": false, "task": false}
from torch.nn.functional import cross_entropy

gpulab.cuda.use("virtual:H100")


def _show_amp_sample():
    """The notes' step, and the dtypes that autocast chose."""
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
        """A model, its optimizer, and a batch whose readings differ by less than bfloat16 can tell at their size."""
        torch.manual_seed(8)
        model = Reader(readings=16, classes=6).cuda()
        batch = (1000 + torch.randn(24, 16)).cuda(), torch.randint(6, (24,)).cuda()
        torch.cuda.synchronize()
        return model, torch.optim.SGD(model.parameters(), lr=0.5), batch

    def dtypes_of(seen):
        """How often each operation that autocast has an opinion on gave a result of which dtype."""
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
# bfloat16 has the range of float32, so nothing underflows that a scale could save; the scaler costs a
# wait and passes over the gradients. float16 needs it. Write
# `amp_step(model, optimizer, batch, dtype, scaler=None, max_norm=None)`, one training step in mixed
# precision:
#
# - `model`: a module on the device, its parameters float32; `model(x)` gives logits of shape
#   `(n, classes)`. Some of its parameters may not require gradients, all others take part in the loss;
# - `optimizer`: over the parameters that require gradients, in one group or in several; not fused;
# - `batch`: a pair `(x, y)` on the device, `x` in float32, `y` the classes. The model is given `x`
#   itself, in float32, once: it has to tell apart what 16 bits cannot;
# - `dtype`: `torch.bfloat16` or `torch.float16`. **Matrix products run in `dtype`; softmax, normalisation
#   and all of the loss in float32.** The loss is the `cross_entropy` of the logits. Autocast sees to all but one of
#   these: the table above shows which operation of the loss it leaves in 16 bits;
# - the backward pass runs outside of autocast, and no autocast region is open afterwards;
# - with float16, `scaler`, an enabled `torch.amp.GradScaler`, scales the loss, unscales the gradients,
#   takes the step or skips it, and adapts its scale: once each in a call;
# - with bfloat16 no method of `scaler` is called, also where one is given;
# - `max_norm`: `None`, or the greatest norm that the gradients may have, unscaled and all together; if
#   theirs is greater, they are scaled down to it, as `clip_grad_norm_` does;
# - parameters may hold gradients from before, those too that no longer require any. They are dropped: not added to, and not filled with
#   zeros, since the caller may still hold them. **Afterwards the parameters are float32, and each `.grad` is this
#   step's gradient: float32, unscaled, clipped**;
# - returns this step's loss, not scaled: a float32 tensor of no dimensions on the device, detached;
# - **the host waits for nothing** but what `scaler.step` waits for itself; nothing deprecated is called;
# - raises `ValueError`, before anything has run or changed, for any other `dtype`, and for float16
#   without a scaler.

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
    torch.set_autocast_enabled("cuda", False)  # whatever an earlier try has left on
    for dtype, scaler in ((torch.bfloat16, None), (torch.float16, torch.amp.GradScaler("cuda", init_scale=2.0**12))):
        model, optimizer, batch = _a_reader()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        with gpulab.observe() as seen:
            loss = amp_step(model, optimizer, batch, dtype, scaler, max_norm=0.5)
        print(dtype)
        for (operation, name), times in _dtypes_of(seen).items():
            print(f"  {operation:24} {name:9} x{times}")
        print(f"  {len(seen.waits)} host waits")
        assert isinstance(loss, torch.Tensor) and loss.is_cuda and loss.dim() == 0, f"{loss!r}: the loss is due, on the device"
        assert not torch.is_autocast_enabled("cuda"), "an autocast region is still open"
        assert not loss.requires_grad, "the loss still holds its graph"
        assert loss.dtype == torch.float32, f"the loss was computed in {loss.dtype}"
        loss_in = {op.dtype for op in seen.ops if op.op in ("aten._log_softmax", "aten.nll_loss_forward")}
        assert loss_in == {"float32"}, f"the operations of the loss ran in {loss_in}"
        products = {op.dtype for op in seen.ops if op.op in ("aten.mm", "aten.addmm", "aten.bmm")}
        assert products == {str(dtype).removeprefix("torch.")}, f"matrix products ran in {products}"
        assert all(p.dtype == torch.float32 == p.grad.dtype for p in model.parameters()), "parameters and gradients are float32"
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()
        assert norm < 0.501, f"the norm of all gradients is {norm}; 0.5 is the most"
        moved = torch.stack([(p.detach() - old).norm() for p, old in zip(model.parameters(), before)]).norm().item()
        assert abs(moved - 0.5 * norm) < 0.01 * norm, f"the step is {moved} long; lr times the gradients' norm is {0.5 * norm}"
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
# A weight in bfloat16, and a thousand updates of -0.001. What is the weight at the end? Say it before
# you run the cell.

# %% nbgrader={"grade": false, "grade_id": "training_drift_sample", "locked": true, "schema_version": 3, "solution": false, "task": false}
_weight = torch.ones(1, dtype=torch.bfloat16, device="cuda")
for _ in range(1000):
    _weight += torch.full((1,), -0.001, device="cuda")
print("1 - 1000 * 0.001 =", _weight.item())

# %% [markdown]
# Write `training_drift(weight, updates)`, which gives a bfloat16 weight all of its updates, and says how
# many of them a plain sum in bfloat16 swallows:
#
# - `weight`: a bfloat16 tensor on the device, of any shape and any strides. It may be a view of a larger
#   tensor, whose other elements keep their values; it may require gradients, and no graph is built;
# - `updates`: an iterator, of ten thousand at most, also of none. It gives tensors on the device, float32 or
#   bfloat16, of the shape of `weight`, to be added to it one after another. Each comes in the
#   same memory, as an optimizer's does: it is there until you ask for the next one, and it is not yours to write to.
#   An update is 0 or at least a hundredth of the distance from the weight to its neighbours, and no weight but one of
#   0 leaves the range from half to twice where it began. The updates of a 0 have one sign;
# - `weight` is changed in place: **whenever you ask for the next update, and at the end, each of its elements is less than one
#   spacing of bfloat16 away from the exact sum so far**. Rounding up
#   and down at random is right on average only, and not good enough here;
# - returns an int32 tensor of the shape of `weight` on the device: of each element, how many updates from the first on leave
#   it as it began, if each is added to `weight` in bfloat16 as `weight + update` is, rounded to bfloat16. The first that moves it
#   ends the count; if none does, it is all of them;
# - from one update to the next at most **13 new bytes are held for each element**, what a variable still holds
#   included, and never more than 32 at once. That is room to keep a copy in float32 for the sum, but not in float64;
# - **the host waits for nothing**;
# - raises `ValueError` where `weight` is not bfloat16, and where an update has another shape than `weight`: before
#   that update is used, and the weight holds those before it.

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
        """Each value as a tensor of the shape of ``like``, all in the same memory."""
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
    assert swallowed.dtype == torch.int32 and swallowed.shape == (3,), "an int32 tensor of the weight's shape is due"
    assert ((weight.cpu().float() - due).abs() < spacing).all(), "updates were lost: the exact sums are 1.07, 1.07 and 256.07"
    assert swallowed.tolist() == [20, 20, 25], "0.001 is less than half of the spacing at 1, 0.01 is more; at 256 both are less"
    assert not seen.waits, f"the host waited at: {[str(wait.line) for wait in seen.waits]}"


_see_training_drift()

# %% nbgrader={"grade": true, "grade_id": "training_drift_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of training_drift: drift 2, swallowed 2, memory 1, the caller's tensors 1, host 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("precision.training_drift")
### END HIDDEN TESTS
