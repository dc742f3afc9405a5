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
# # Autograd as a memory system: exercises
#
# Autograd keeps tensors so that the backward pass can use them. Each function is graded for its values and for
# what was held while it ran: gradients that were let go of too late, a graph that outlived its step, a tensor
# that backward needed and somebody wrote to.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read the table: it
# shows what your code did. `gpulab.observe()` works on any code of yours. Here and in the hidden tests the
# device is a virtual card, whose values are real and whose bytes are *modelled*; `gpulab.cuda.use("real")` in a
# cell of your own lets the same code run on a GPU.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import gc
import weakref

import gpulab
import gpulab.cuda
import torch

runtime = gpulab.cuda.use("virtual:H100")

# %% [markdown]
# ## E2.1 `train_step`
#
# Five calls make a step of training. Each of them takes memory or gives some back, so their order decides what
# the step computes and what it holds meanwhile. Write `train_step(model, optimizer, batch, loss_fn)`:
#
# - [c1] `model`: a `torch.nn.Module` with parameters of float32 or float64 on the device. [c2] Some of them may not require
#   gradients. [c3] **Every module in it is in training mode when it is called, and stays so**, whatever mode each was in before;
# - [c4] `optimizer`: one of `torch.optim`'s, over the parameters that require gradients, in one group or in several.
#   [c5] `optimizer.step()` is called once, without arguments, and nothing else updates a parameter;
# - [c6] `batch`: a pair `(x, y)` of tensors on the device, which are left as they are;
# - [c7] the loss is `loss_fn(model(x), y)`. [c8] Both are called once, and the model as `model(x)`, so that its hooks run;
# - [c9] **afterwards `.grad` of every parameter that took part in the loss is this batch's gradient alone**, for whoever
#   logs its norm; [c10] it requires no gradient itself;
# - [c11] `.grad` of every other parameter of the optimizer is `None`: [c12] from a gradient of zeros an optimizer still makes a step, by
#   momentum or weight decay;
# - [c13] parameters may hold gradients from before, numbers or NaN. [c14] They are dropped and not written to: [c15] the caller
#   may still use them;
# - [c16] memory: **when the model is called, no old gradient is held. [c17] When the optimizer steps, of the forward pass
#   only what `model` and `loss_fn` returned is held. [c18] After the return nothing of it is held**, no loss and no graph, also
#   where Python's garbage collector is off;
# - [c19] returns the loss before the step as a Python float, every digit of it. [c20] The loss lies in memory of its own, no parameter's;
# - [c21] **the host waits once, for the loss, and only after the optimizer's step was handed to the device**;
# - [c22] a loss of several elements: [c23] autograd's `RuntimeError` is let through, and no parameter has changed.

# %% nbgrader={"grade": false, "grade_id": "train_step", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_step(model, optimizer, batch, loss_fn):
    """One step of training; the loss before it, a Python float."""
    ### BEGIN SOLUTION
    x, y = batch
    model.train()
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "train_step_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_train_step():
    """What the card holds at each moment of a step, and where the host waited."""
    torch.manual_seed(2)
    model = torch.nn.Sequential(*[layer for _ in range(4) for layer in (torch.nn.Linear(128, 128), torch.nn.Tanh())]).cuda().eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    batch = torch.randn(512, 128).cuda(), torch.randn(512, 128).cuda()
    weights = sum(p.nbytes for p in model.parameters())
    asleep, readings = [], {}
    torch.autograd.grad(model(batch[0]).sum(), list(model.parameters()))  # what a library keeps from its first call on is there

    def read(when):
        """A hook that notes what the card holds beside the batch and the weights."""

        def note(*_):
            readings[when] = torch.cuda.memory_allocated() - beside

        return note

    model.register_forward_pre_hook(lambda module, _: asleep.extend(m for m in module.modules() if not m.training))
    model.register_forward_pre_hook(read("the model is called"))
    model.register_forward_hook(read("the model returned"))
    optimizer.register_step_pre_hook(read("the optimizer steps"))
    beside = torch.cuda.memory_allocated()
    for p in model.parameters():
        p.grad = torch.full_like(p, torch.nan)
    torch.cuda.synchronize()
    gc.disable()
    try:
        with gpulab.observe() as seen:
            loss = train_step(model, optimizer, batch, torch.nn.functional.mse_loss)
    finally:
        gc.enable()
    state = sum(value.nbytes for each in optimizer.state.values() for value in each.values() if value.is_cuda)
    read("the step is over")()
    print("bytes held beside weights and batch when")
    for when, held in readings.items():
        print(f"  {when:24}{held:10}")
    print(f"gradients take {weights}, the optimizer's state {state}, an activation {batch[0].nbytes}")
    print(*(f"the host waited at: {wait.line}" for wait in seen.waits), sep="\n")

    assert isinstance(loss, float), f"{loss!r}: a Python float is due"
    assert not asleep, f"{len(asleep)} modules were not in training mode when the model was called"
    fresh = all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert fresh, "the gradients are not this batch's alone"
    assert readings["the model is called"] < 4096, "old gradients were still held when the model was called"
    assert readings["the optimizer steps"] < weights + 4 * batch[0].nbytes, "the graph was still held when the optimizer stepped"
    assert readings["the step is over"] < weights + state + batch[0].nbytes, "something of the forward pass is still held"
    assert len(seen.waits) == 1, f"the host waited {len(seen.waits)} times; once is due, for the loss"
    done = [op.op for op in seen.ops if op.device != "cpu"]
    assert "aten._local_scalar_dense" not in done[: done.index("aten._foreach_addcdiv_")], "the host waited before the step"


_see_train_step()

# %% nbgrader={"grade": true, "grade_id": "train_step_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of train_step: step 1, gradients 2, calls 1, value 1, memory 2, host 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("autograd.train_step")
### END HIDDEN TESTS

# %% [markdown]
# ## E2.2 `evaluate`
#
# Between two epochs somebody asks how good the model is. The answer needs no backward pass, no host that waits at
# every batch, and a model that is afterwards what it was before. Write `evaluate(model, loader, loss_fn)`:
#
# - [c1] `model`: a classifier with parameters on one device, a GPU or the host; [c2] `model(x)` gives logits of shape
#   `(n, classes)`. [c3] **Every module in it is in evaluation mode while it is evaluated, and afterwards in the mode it was
#   in before**: [c4] each has its own;
# - [c5] `loader`: gives pairs `(x, y)`, where `y` holds the `n` classes as int64. [c6] It may have no length, and it can be gone
#   through once only. [c7] Batches lie on the model's device, or on the host while the model is on a GPU. [c8] Their sizes differ, and a
#   batch without samples counts for nothing;
# - [c9] `loss_fn(model(x), y)` is the **mean** loss of a batch, a tensor of one element. [c10] The model is called once for each batch, as
#   `model(x)`;
# - [c11] returns a dictionary of two Python floats: [c12] `"loss"`, the mean over all **samples**, and `"accuracy"`, the share of
#   samples whose largest logit is that of their class. [c13] Sums are kept in float64: [c14] the mean of the losses is right to a
#   billionth, and NaN where a batch with samples has that loss;
# - [c15] memory: **autograd saves nothing**; [c16] a batch is asked for when the one before is dealt with, and of all but the last two no
#   more is held than a few numbers each;
# - [c17] **the host reads the device once, after the last batch.** [c18] Waiting for a batch to be copied to the device is no read;
# - [c19] parameters, buffers, gradients, what requires gradients and the caller's grad mode are left as they are;
# - [c20] an exception of the model, the loss function or the loader comes through, KeyboardInterrupt too. [c21] **Then, too, every
#   module is in its own mode again**, and all else is left as it is;
# - [c22] raises `ValueError` where there are no samples.

# %% nbgrader={"grade": false, "grade_id": "evaluate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def evaluate(model, loader, loss_fn):
    """Mean loss and accuracy over the samples of a loader."""
    ### BEGIN SOLUTION
    modes = [(module, module.training) for module in model.modules()]
    try:
        loss, right, samples = sums(model.eval(), loader, loss_fn)
    finally:
        for module, mode in modes:
            module.training = mode
    if not samples:
        raise ValueError("of no samples there is no mean")
    loss, right = torch.stack((loss, right)).tolist()
    return {"loss": loss / samples, "accuracy": right / samples}


@torch.no_grad()
def sums(model, loader, loss_fn):
    """Of all samples: losses and right answers, added up on the device, and how many they are."""
    device = next(model.parameters()).device
    loss, right = torch.zeros(2, dtype=torch.float64, device=device)
    samples = 0
    for x, y in loader:
        if len(y):
            x, y = x.to(device), y.to(device)
            logits = model(x)
            loss += loss_fn(logits, y).double().sum() * len(y)
            right += (logits.argmax(-1) == y).sum()
            samples += len(y)
    return loss, right, samples
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "evaluate_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_evaluate():
    """What was evaluated, beside all samples at once; what autograd saved, and where the host read."""
    torch.manual_seed(4)
    layers = torch.nn.Linear(32, 64), torch.nn.BatchNorm1d(64), torch.nn.Dropout(0.5), torch.nn.Linear(64, 10)
    model = torch.nn.Sequential(*layers).cuda()
    model[1].eval()  # a norm whose statistics are frozen
    x, y = torch.randn(100, 32), torch.randint(10, (100,))
    x[96:] *= 50
    with torch.no_grad():
        logits = model.eval()(x.cuda())
        loss, right = torch.nn.functional.cross_entropy(logits, y.cuda()), logits.argmax(-1).cpu() == y
    due = {"loss": loss.item(), "accuracy": right.double().mean().item()}
    model.train()
    model[1].eval()
    modes = [module.training for module in model.modules()]
    packed = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda tensor: packed.append(tensor.nbytes), lambda _: None)
    with hooks, gpulab.observe() as seen:
        found = evaluate(model, zip(x.cuda().split(32), y.cuda().split(32)), torch.nn.functional.cross_entropy)
    reads = [wait for wait in seen.waits if not wait.reason.startswith("copy HtoD")]
    print(f"{'':10}{'evaluated':>12}{'all at once':>12}")
    for name, value in due.items():
        print(f"{name:10}{found[name]:12.6f}{value:12.6f}")
    print(f"bytes saved for a backward pass: {sum(packed)}")
    print(*(f"the host waited at: {wait.line}" for wait in reads), sep="\n")

    assert abs(found["accuracy"] - due["accuracy"]) < 1e-12, f"{100 * due['accuracy']:.0f} of 100 samples are classified right"
    assert abs(found["loss"] - due["loss"]) < 1e-4 * due["loss"], "the last batch has 4 samples: the mean is that over the samples"
    assert not packed, f"autograd saved {len(packed)} tensors"
    assert [module.training for module in model.modules()] == modes, "a module is not in the mode it was in before"
    assert len(reads) == 1, f"the host read the device {len(reads)} times; once is enough"
    model.train()
    try:
        evaluate(model, [(x.cuda(), y)], lambda logits, y: 1 / 0)
    except ZeroDivisionError:
        assert all(module.training for module in model.modules()), "after an exception the model is still in evaluation mode"
    else:
        raise AssertionError("the loss function's exception did not come through")


_see_evaluate()

# %% nbgrader={"grade": true, "grade_id": "evaluate_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of evaluate: values 1, weights 2, modes 2, memory 1, host 1, untouched 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("autograd.evaluate")
### END HIDDEN TESTS

# %% [markdown]
# ## E2.3 `saved_bytes`
#
# Autograd keeps what the backward pass will need until it has used it: that is where the memory of a training
# step goes. Write `saved_bytes(fn, *inputs)`, the instrument that tells how much a function leaves behind:
#
# - [c1] `fn`: a function or a `torch.nn.Module`. [c2] It is called once, as `fn(*inputs)`, with the very inputs that were
#   given and in the caller's grad mode. [c3] `inputs` are tensors, or whatever else `fn` takes. [c4] None of them is
#   changed, and no backward pass is run;
# - [c5] returns a Python integer: [c6] **the bytes that autograd holds for a backward pass when `fn` has returned**, while
#   its result is still there. [c7] Those of inputs count like any other;
# - [c8] **a storage counts once**, whichever operations saved it and whatever part of it they use, **and with all its
#   bytes**: [c9] a saved row keeps the whole matrix in memory;
# - [c10] where `fn` is a module, the storages of its parameters and buffers do not count: [c11] they are there anyway. [c12] What a
#   function closes over, or a module holds as a plain attribute, counts;
# - [c13] what was saved and let go of before `fn` returned does not count: [c14] a branch that was dropped, a graph that `fn`
#   itself has gone back through. [c15] What `fn` returns does not matter, if anything;
# - [c16] `fn` works as it does without the instrument. [c17] It may call `torch.autograd.grad`, also for gradients of gradients,
#   use checkpointing and saved-tensor hooks of its own, and ask `saved_bytes` itself. [c18] What its own hooks pack does
#   not count. [c19] The one thing that may differ: [c20] of what hooks have packed autograd checks no version;
# - [c21] tensors are on any device. [c22] On `meta` they have sizes and no memory, and the answer is the same;
# - [c23] **the instrument takes no memory of the device**: [c24] at no time is more taken than by `fn(*inputs)` alone, and after the
#   call nothing of it is left, also where Python's garbage collector is off;
# - [c25] an exception of `fn` comes through. [c26] Afterwards, with or without one, the caller's own hooks are in force again,
#   and none of yours.

# %% nbgrader={"grade": false, "grade_id": "saved_bytes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def saved_bytes(fn, *inputs):
    """Bytes that autograd holds for a backward pass when fn(*inputs) has returned."""
    ### BEGIN SOLUTION
    held = weakref.WeakSet()

    def pack(tensor):
        packed = Packed(tensor.detach())  # tensor itself may hold the graph that is to hold it
        held.add(packed)
        return packed

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor):
        result = fn(*inputs)
    storages = {packed.tensor.untyped_storage() for packed in held}
    del result  # as long as it is there, so is its graph
    return sum(storage.nbytes() for storage in storages - own_storages(fn))


class Packed:
    """Lives as long as the node that saved its tensor."""

    def __init__(self, tensor):
        self.tensor = tensor


def own_storages(fn):
    """Those of a module's parameters and buffers."""
    if not isinstance(fn, torch.nn.Module):
        return set()
    return {tensor.untyped_storage() for tensor in (*fn.parameters(), *fn.buffers())}
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "saved_bytes_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_saved_bytes():
    """Bytes held for a backward pass, beside those that the card has in use."""
    x = torch.linspace(-2, 2, 2**14).view(64, 256).cuda().requires_grad_()
    layer = torch.nn.Linear(256, 256).cuda()
    questions = {  # by what one activation of x's size takes: how many of them stay
        "x + 1": (lambda x: x + 1, 0),
        "relu(x)": (torch.relu, 1),
        "gelu(x)": (torch.nn.functional.gelu, 1),
        "gelu(relu(x))": (lambda x: torch.nn.functional.gelu(torch.relu(x)), 1),
        "x * x": (lambda x: x * x, 1),
        "a row of x + 1": (lambda x: (x + 1)[0].sin(), 1),
        "a graph gone back through": (lambda x: torch.autograd.grad(x.exp().sum(), x)[0], 0),
        "layer(x)": (layer, 1),
    }
    gc.disable()
    try:
        for name, (fn, due) in questions.items():
            before = torch.cuda.memory_allocated()
            answer = saved_bytes(fn, x)
            left = torch.cuda.memory_allocated() - before
            print(f"{name:28}{answer:8} bytes held, {left:6} left on the card afterwards")
            assert answer == due * x.nbytes, f"{name}: {due * x.nbytes} bytes are due"
            assert left == 0, f"{name}: {left} bytes are still there"
        before = torch.cuda.memory_allocated()
        y = torch.tanh(torch.exp(torch.exp(x)))
        taken = torch.cuda.memory_allocated() - before
    finally:
        gc.enable()
    answer = saved_bytes(lambda x: torch.tanh(torch.exp(torch.exp(x))), x)
    print(f"tanh(exp(exp(x))): {answer} bytes held; the card has {taken} more in use")
    assert answer == taken, "each of three operations keeps its result"
    del y


_see_saved_bytes()

# %% nbgrader={"grade": true, "grade_id": "saved_bytes_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of saved_bytes: bytes 2, storages 2, held 1, parameters 1, memory 1, function 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("autograd.saved_bytes")
### END HIDDEN TESTS

# %% [markdown]
# ## E2.4 `inplace_legal`
#
# `y.relu_()` writes its result over `y`: one tensor less, as long as somebody holds `y`. Backward needs the old `y` only if an
# operation saved it; each tensor counts its versions, and autograd refuses a saved tensor that has been written to since. The
# cell below the statement runs programs and prints what they hold. Write `inplace_legal(steps)`, which says of each step of a program whether it may be done in place:
#
# - [c1] `steps`: a list of tuples `(operation, *arguments)`, at most 1000, which is left as it is. [c2] Step `i` makes value `i`;
#   [c3] arguments are the positions of earlier steps. [c4] All values have one shape. [c5] The backward pass is that of the last value's sum. [c6] For example
#   `[("leaf",), ("exp", 0), ("neg", 1)]`:
#
# | operation | its value | saves for backward |
# | --- | --- | --- |
# | `("leaf",)` | a parameter: a leaf that requires gradients | |
# | `("input",)` | data: a leaf that requires none | |
# | `("exp", a)`, `("tanh", a)`, `("sigmoid", a)`, `("relu", a)` | | its result |
# | `("sin", a)`, `("cos", a)`, `("square", a)` | | its argument |
# | `("gelu", a)`, which has no in-place form | | its argument |
# | `("neg", a)`, `("double", a)`, `("shift", a)` | `-a`, `2 * a`, `a + 1` | nothing |
# | `("add", a, b)` | `a + b` | nothing |
# | `("mul", a, b)` | `a * b` | each argument, if the other requires gradients |
# | `("view", a)`, `("detach", a)` | the memory of `a` under another name; `detach` requires no gradients | nothing |
#
# - [c7] an operation saves nothing where none of its arguments requires gradients;
# - [c8] in place a step writes its result into the memory of its first argument: [c9] `a.exp_()`, `a.mul_(b)`. If it would save that
#   argument, it saves a copy of it instead: [c10] that is allowed, though no memory is saved. [c11] Of a second argument it makes no copy;
# - [c12] a version belongs to the memory: [c13] a tensor, its views and what is detached from it count together;
# - [c14] **returns a list of bools, one for each step: [c15] True where this step alone may be done in place.** [c16] That is so where
#   PyTorch raises nothing, neither in a step nor in the backward pass, and where no later step takes a value that was there before
#   and has been overwritten: [c17] autograd would not notice, and compute something else;
# - [c18] a step that has no in-place form is False: [c19] `leaf`, `input`, `view`, `detach` and `gelu`;
# - [c20] **nothing is run**: the answer is had in plain Python, and neither PyTorch nor NumPy is called;
# - [c21] raises `ValueError` for an operation that is not in the table, a wrong number of arguments, an argument that
#   is no earlier step, and where the last value requires no gradient, so that there is no backward pass.

# %% nbgrader={"grade": false, "grade_id": "inplace_runner", "locked": true, "schema_version": 3, "solution": false, "task": false}
_SPELLED = {"double": ("mul", 2.0), "shift": ("add", 1.0)}


def _run(steps, in_place=None):
    """Run a program, one step in place: bytes held while every value has a name and for backward, and what PyTorch raises."""
    before, values = torch.cuda.memory_allocated(), []
    try:
        for at, (operation, *arguments) in enumerate(steps):
            x = values[arguments[0]] if arguments else None
            if operation in ("leaf", "input"):
                values.append(torch.linspace(0.1, 0.4, 2**14, device="cuda").requires_grad_(operation == "leaf"))
            elif operation in ("view", "detach"):
                values.append(x.view(x.shape) if operation == "view" else x.detach())
            elif operation == "gelu":
                values.append(torch.nn.functional.gelu(x))
            else:
                name, *numbers = _SPELLED.get(operation, (operation,))
                others = [values[a] for a in arguments[1:]]
                values.append(getattr(x, name + "_" * (at == in_place))(*others, *numbers))
        named = torch.cuda.memory_allocated() - before
        last, x, others = values[-1], None, None
        values.clear()
        held = torch.cuda.memory_allocated() - before
        last.sum().backward()
    except RuntimeError as error:
        return 0, 0, str(error).split(":")[0]
    return named, held, ""


_steps = [("leaf",), ("exp", 0), ("neg", 1), ("relu", 2), ("sin", 3)]
for _at in (None, 1, 2, 3, 4):
    _named, _held, _error = _run(_steps, _at)
    _what = "nothing in place" if _at is None else f"{_steps[_at]} in place"
    print(f"{_what:22}{_error[:80] or f'{_named:7} bytes with names, {_held:7} for backward'}")

# %% nbgrader={"grade": false, "grade_id": "inplace_legal", "locked": false, "schema_version": 3, "solution": true, "task": false}
def inplace_legal(steps):
    """Of each step, whether it alone may be done in place."""
    ### BEGIN SOLUTION
    refuse_what_is_no_program(steps)
    grads, memory, last_read = [], [], {}
    for at, (operation, *arguments) in enumerate(steps):
        grads.append(operation == "leaf" or operation not in ("input", "detach") and any(grads[a] for a in arguments))
        memory.append(memory[arguments[0]] if operation in ALIASES else at)
        last_read |= {memory[a]: at for a in arguments}
    if not steps or not grads[-1]:
        raise ValueError("the last value requires no gradient: there is no backward pass")
    backward, first_saved = reached(steps, grads), {}
    for at in sorted(backward, reverse=True):
        first_saved |= {memory[value]: at for value in saved(at, steps[at], grads)}

    def legal(at, operation, written=None, *others):
        if operation in NO_IN_PLACE_FORM:
            return False
        block = memory[written]
        is_a_leafs = grads[written] and steps[block][0] == "leaf"
        was_saved = first_saved.get(block, at) < at
        saves_it = operation == "mul" and at in backward and grads[written] and memory[others[0]] == block
        return not (is_a_leafs or was_saved or saves_it or last_read[block] > at)

    return [legal(at, *step) for at, step in enumerate(steps)]


SAVES_RESULT = ("exp", "tanh", "sigmoid", "relu")
SAVES_ARGUMENT = ("sin", "cos", "square", "gelu")
ALIASES = ("view", "detach")
NO_IN_PLACE_FORM = ("leaf", "input", "gelu", *ALIASES)
ARGUMENTS = dict.fromkeys((*SAVES_RESULT, *SAVES_ARGUMENT, *ALIASES, "neg", "double", "shift"), 1)
ARGUMENTS |= {"leaf": 0, "input": 0, "add": 2, "mul": 2}


def refuse_what_is_no_program(steps):
    for at, (operation, *arguments) in enumerate(steps):
        if ARGUMENTS.get(operation) != len(arguments):
            raise ValueError(f"step {at}: there is no {operation!r} of {len(arguments)} arguments")
        if not all(a in range(at) for a in arguments):
            raise ValueError(f"step {at}: {arguments} are not all positions of earlier steps")


def reached(steps, grads):
    """The steps that the backward pass comes to."""
    found = {len(steps) - 1}
    for at in reversed(range(len(steps))):
        if at in found:
            found |= {a for a in steps[at][1:] if grads[a]}
    return found


def saved(at, step, grads):
    """The values that a step saves, if it requires gradients."""
    operation, *arguments = step
    if operation == "mul":
        return [value for value, other in (arguments, arguments[::-1]) if grads[other]]
    if operation in SAVES_RESULT:
        return [at]
    return arguments if operation in SAVES_ARGUMENT else []
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "inplace_legal_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_inplace_legal():
    """Each step in place: your word, PyTorch's, and the bytes that are held."""
    programs = {  # and which of their steps may be done in place
        "a chain": ([("leaf",), ("exp", 0), ("neg", 1), ("relu", 2), ("sin", 3)], {3}),
        "a gate": ([("leaf",), ("input",), ("double", 0), ("sigmoid", 2), ("mul", 3, 1), ("shift", 4)], {3, 5}),
        "a second use": ([("leaf",), ("double", 0), ("sin", 1), ("tanh", 1), ("add", 2, 3)], {4}),
        "a use that backward does not reach": ([("leaf",), ("double", 0), ("sin", 1), ("tanh", 1), ("shift", 3)], {3}),
        "another name": ([("leaf",), ("double", 0), ("view", 1), ("cos", 1), ("neg", 2), ("add", 3, 4)], {5}),
        "read later": ([("leaf",), ("double", 0), ("shift", 1), ("neg", 1), ("add", 2, 3)], {3, 4}),
    }
    for name, (steps, due) in programs.items():
        answer = inplace_legal(list(steps))
        print(f"{name}: {_run(steps)[0]} bytes with names, {_run(steps)[1]} for backward")
        assert isinstance(answer, list) and len(answer) == len(steps), f"{answer!r}: a list with a bool for each step is due"
        for at, step in enumerate(steps):
            if step[0] not in ("leaf", "input", "view", "detach", "gelu"):
                named, held, error = _run(steps, at)
                says, held = "legal" if answer[at] else "not legal", f"{named:7} and {held:7} in place"
                print(f"  {str(step):16}{says:12}{'PyTorch raises' if error else held}")
                assert not (error and answer[at]), f"{name}, step {at}: PyTorch raises {error}"
            assert answer[at] is (at in due), f"{name}, step {at}: it is {'legal' if at in due else 'not legal'}"


_see_inplace_legal()

# %% nbgrader={"grade": true, "grade_id": "inplace_legal_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of inplace_legal: chain 2, consumers 2, views 1, readers 1, leaves 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("autograd.inplace_legal")
### END HIDDEN TESTS
