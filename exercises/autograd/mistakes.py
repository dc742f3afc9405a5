"""Chapter "Autograd as a memory system": wrong solutions, and right ones written another way."""

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E2.1 train_step

ALL_OF_TRAIN_STEP = ("step", "gradients", "calls", "value", "memory", "host", "errors")

zeroes_between_backward_and_step = edited(
    "train_step",
    {"    optimizer.zero_grad()\n": "", "    loss.backward()\n": "    loss.backward()\n    optimizer.zero_grad()\n"},
    loses=ALL_OF_TRAIN_STEP,
    because="zeroing is thought to prepare the step, not the backward pass",
    breaks="`.grad` of every parameter that took part in the loss is this batch's gradient alone",
)

never_zeroes = edited(
    "train_step",
    {"    optimizer.zero_grad()\n": ""},
    loses=("gradients", "memory"),
    because="backward is thought to begin anew",
    breaks="`.grad` of every parameter that took part in the loss is this batch's gradient alone",
)

zeroes_before_the_backward_pass = edited(
    "train_step",
    {"    optimizer.zero_grad()\n": "", "    loss.backward()\n": "    optimizer.zero_grad()\n    loss.backward()\n"},
    loses=("memory",),
    because="any place before backward is thought to be as good",
    breaks="when the model is called, no old gradient is held",
)

fills_with_zeros = edited(
    "train_step",
    {"zero_grad()": "zero_grad(set_to_none=False)"},
    loses=("gradients", "memory"),
    because="a gradient of zeros is thought to be no gradient",
    breaks="from a gradient of zeros an optimizer still makes a step",
)

multiplies_by_zero = edited(
    "train_step",
    {"    optimizer.zero_grad()\n": "    for p in model.parameters():\n        if p.grad is not None:\n            p.grad *= 0\n"},
    loses=("gradients", "memory"),
    because="anything times 0 is thought to be 0",
    breaks="parameters may hold gradients from before, numbers or NaN",
)

zeroes_and_drops = edited(
    "train_step",
    {"    optimizer.zero_grad()\n": "    optimizer.zero_grad(set_to_none=False)\n    optimizer.zero_grad()\n"},
    loses=("gradients",),
    because="old gradients are thought to belong to the function",
    breaks="They are dropped and not written to: the caller may still use them",
)

drops_the_first_group = edited(
    "train_step",
    {"    optimizer.zero_grad()\n": "    for p in optimizer.param_groups[0][\"params\"]:\n        p.grad = None\n"},
    loses=("gradients", "memory"),
    because="an optimizer is thought to have one group",
    breaks="in one group or in several",
)

puts_the_old_gradients_aside = edited(
    "train_step",
    {"    optimizer.zero_grad()\n": "    old = [p.grad for p in model.parameters()]\n    optimizer.zero_grad()\n"},
    loses=("memory",),
    because="setting a name to None is thought to free what another name still holds",
    breaks="when the model is called, no old gradient is held",
)

drops_them_afterwards_too = edited(
    "train_step",
    {"    return loss.item()": "    optimizer.zero_grad()\n    return loss.item()"},
    loses=("gradients",),
    because="gradients are thought to be done with after the step",
    breaks="for whoever logs its norm",
)

drops_them_afterwards_only = edited(
    "train_step",
    {"    optimizer.zero_grad()\n": "", "    return loss.item()": "    optimizer.zero_grad()\n    return loss.item()"},
    loses=("gradients", "memory"),
    because="nobody else is thought to leave a gradient behind",
    breaks="parameters may hold gradients from before",
)

fills_what_is_missing = edited(
    "train_step",
    {"    loss.backward()\n": "    loss.backward()\n    for p in model.parameters():\n        if p.requires_grad and p.grad is None:\n"
     "            p.grad = torch.zeros_like(p)\n"},
    loses=("gradients",),
    because="every parameter is thought to need a gradient for the step",
    breaks="`.grad` of every other parameter of the optimizer is `None`",
)

returns_the_loss = edited(
    "train_step",
    {"loss.item()": "loss"},
    loses=("value", "memory", "host"),
    because="a loss is thought to be a number: it holds the graph that made it",
    breaks="no loss and no graph",
)

names_the_output = edited(
    "train_step",
    {"loss_fn(model(x), y)": "loss_fn(output := model(x), y)"},
    loses=("memory",),
    because="backward is thought to free all of the forward pass: it frees what the loss goes through, and an output beside it keeps its own",
    breaks="of the forward pass only what `model` and `loss_fn` returned is held",
)

returns_it_detached = edited(
    "train_step",
    {"loss.item()": "loss.detach()"},
    loses=("value", "host"),
    because="a tensor without its graph is thought to be a number",
    breaks="as a Python float",
)

in_float32 = edited(
    "train_step",
    {"loss.item()": "loss.float().item()"},
    loses=("value",),
    because="losses are thought to be float32 always",
    breaks="every digit of it",
)

rounded_for_the_log = edited(
    "train_step",
    {"loss.item()": "round(loss.item(), 4)"},
    loses=("value",),
    because="what is printed is taken for what is returned",
    breaks="every digit of it",
)

loss_after_the_step = edited(
    "train_step",
    {"    return loss.item()": "    with torch.no_grad():\n        return loss_fn(model(x), y).item()"},
    loses=("calls", "value"),
    because="the loss of a step is thought to be what the step has reached",
    breaks="returns the loss before the step",
)

stays_in_evaluation_mode = edited(
    "train_step",
    {"    model.train()\n": ""},
    loses=("calls",),
    because="the caller is thought to have set the mode",
    breaks="whatever mode each was in before",
)

asks_the_model_alone = edited(
    "train_step",
    {"    model.train()\n": "    if not model.training:\n        model.train()\n"},
    loses=("calls",),
    because="the flag of the whole is thought to speak for its parts",
    breaks="Every module in it is in training mode",
)

sets_the_flag_of_the_whole = edited(
    "train_step",
    {"    model.train()\n": "    model.training = True\n"},
    loses=("calls",),
    because="the flag of the whole is thought to be that of its parts",
    breaks="Every module in it is in training mode",
)

goes_back_to_evaluation = edited(
    "train_step",
    {"    return loss.item()": "    value = loss.item()\n    model.eval()\n    return value"},
    loses=("calls",),
    because="a mode is thought to be put back where it was set",
    breaks="and stays so",
)

calls_forward = edited(
    "train_step",
    {"loss_fn(model(x), y)": "loss_fn(model.forward(x), y)"},
    loses=("calls", "memory"),
    because="a module is thought to be its forward method",
    breaks="and the model as `model(x)`, so that its hooks run",
)

takes_the_loss_twice = edited(
    "train_step",
    {"    return loss.item()": "    return loss_fn(model(x), y).item()"},
    loses=("calls", "value"),
    because="a forward pass is thought to cost nothing",
    breaks="Both are called once",
)

marks_the_batch = edited(
    "train_step",
    {"    x, y = batch\n": "    x, y = batch\n    x.requires_grad_()\n"},
    loses=("calls", "memory"),
    because="inputs are thought to need gradients so that backward gets to the weights",
    breaks="which are left as they are",
)

normalises_the_batch = edited(
    "train_step",
    {"    x, y = batch\n": "    x, y = batch\n    x /= x.std()\n"},
    loses=ALL_OF_TRAIN_STEP,
    because="a batch is thought to be the function's own",
    breaks="which are left as they are",
)

swaps_output_and_target = edited(
    "train_step",
    {"loss_fn(model(x), y)": "loss_fn(y, model(x))"},
    loses=ALL_OF_TRAIN_STEP,
    because="losses are thought to be symmetric",
    breaks="the loss is `loss_fn(model(x), y)`",
)

unfreezes_the_model = edited(
    "train_step",
    {"    model.train()\n": "    model.train().requires_grad_()\n"},
    loses=("gradients", "memory"),
    because="training is thought to be for every parameter",
    breaks="Some of them may not require gradients",
)

retains_the_graph = edited(
    "train_step",
    {"loss.backward()": "loss.backward(retain_graph=True)"},
    loses=("memory",),
    because="a graph is thought to be needed until the step is over",
    breaks="When the optimizer steps, of the forward pass only what `model` and `loss_fn` returned is held",
)

makes_a_graph_of_the_gradients = edited(
    "train_step",
    {"loss.backward()": "loss.backward(create_graph=True)"},
    loses=("memory",),
    because="an optimizer is thought to differentiate the gradients",
    breaks="it requires no gradient itself",
)

logs_the_loss_itself = edited(
    "train_step",
    {"    optimizer.step()\n": "    optimizer.step()\n    model.history = getattr(model, \"history\", []) + [loss]\n"},
    loses=("memory",),
    because="a list of losses is thought to be a list of numbers",
    breaks="After the return nothing of it is held",
)

leaves_a_cycle = edited(
    "train_step",
    {"    optimizer.step()\n": "    optimizer.step()\n    log = {\"loss\": loss}\n    log[\"latest\"] = log\n"},
    loses=("memory",),
    because="what no name reaches is thought to be freed at once",
    breaks="also where Python's garbage collector is off",
)

reads_the_loss_first = edited(
    "train_step",
    {"    loss.backward()\n    optimizer.step()\n    return loss.item()": "    value = loss.item()\n    loss.backward()\n    optimizer.step()\n    return value"},
    loses=("host",),
    because="the host is thought to know a loss as soon as its kernel is launched",
    breaks="and only after the optimizer's step was handed to the device",
)

looks_whether_it_is_finite = edited(
    "train_step",
    {"    return loss.item()": "    if not torch.isfinite(loss):\n        print(\"diverged\")\n    return loss.item()"},
    loses=("host",),
    because="a condition on a tensor is thought to be free",
    breaks="the host waits once, for the loss",
)

waits_for_the_device = edited(
    "train_step",
    {"    return loss.item()": "    torch.cuda.synchronize()\n    return loss.item()"},
    loses=("host",),
    because="the loss is thought to be read before it is there unless one waits",
    breaks="the host waits once, for the loss",
)

steps_twice = edited(
    "train_step",
    {"    optimizer.step()\n": "    optimizer.step()\n    optimizer.step()\n"},
    loses=ALL_OF_TRAIN_STEP,
    because="a second step is thought to go on where the first ended, with a gradient of its own",
    breaks="`optimizer.step()` is called once, without arguments",
)

descends_by_itself = edited(
    "train_step",
    {"    optimizer.step()\n": "    with torch.no_grad():\n        for group in optimizer.param_groups:\n            for p in group[\"params\"]:\n"
     "                if p.grad is not None:\n                    p -= group[\"lr\"] * p.grad\n"},
    loses=ALL_OF_TRAIN_STEP,
    because="every optimizer is thought to be plain gradient descent",
    breaks="and nothing else updates a parameter",
)

clips_out_of_habit = edited(
    "train_step",
    {"    optimizer.step()\n": "    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)\n    optimizer.step()\n"},
    loses=ALL_OF_TRAIN_STEP,
    because="clipping is thought to be part of every step",
    breaks="is this batch's gradient alone",
)

reduces_the_loss_itself = edited(
    "train_step",
    {"loss_fn(model(x), y)": "loss_fn(model(x), y).mean()"},
    loses=("errors",),
    because="a loss of several elements is thought to mean their mean",
    breaks="a loss of several elements: autograd's `RuntimeError` is let through",
)

gives_a_number_in_any_case = edited(
    "train_step",
    {"    loss.backward()\n": "    try:\n        loss.backward()\n    except RuntimeError:\n        return float(\"nan\")\n"},
    loses=("errors",),
    because="a training loop is thought never to stop",
    breaks="autograd's `RuntimeError` is let through",
)

steps_in_any_case = edited(
    "train_step",
    {"    loss.backward()\n    optimizer.step()\n": "    try:\n        loss.backward()\n    finally:\n        for p in model.parameters():\n"
     "            if p.requires_grad and loss.numel() > 1:\n                p.grad = torch.ones_like(p)\n        optimizer.step()\n"},
    loses=("errors",),
    because="what is in a finally clause is thought to be skipped after an error",
    breaks="and no parameter has changed",
)


@alternative("train_step")
def asks_for_the_gradients(model, optimizer, batch, loss_fn):
    for module in model.modules():
        module.training = True
    parameters = [p for p in model.parameters() if p.requires_grad]
    for p in parameters:
        p.grad = None
    loss = loss_fn(model(batch[0]), batch[1])
    for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True)):
        p.grad = gradient
    optimizer.step()
    return float(loss)


@alternative("train_step")
def lets_go_of_the_loss_early(model, optimizer, batch, loss_fn):
    model.zero_grad(set_to_none=True)
    output = model.train(True)(batch[0])
    loss = loss_fn(output, batch[1])
    del output
    torch.autograd.backward(loss)
    value = loss.detach().clone()
    del loss
    optimizer.step()
    return value.cpu().tolist() if value.ndim == 0 else value.cpu().tolist()[0]


TRAIN_STEP_UNBREAKABLE = [
    unbreakable("train_step", "The loss lies in memory of its own, no parameter's", "it says what the caller gives"),
    unbreakable("train_step", "with parameters of float32 or float64 on the device", "it says what the caller gives"),
]

# E2.2 evaluate

ALL_OF_EVALUATE = ("values", "weights", "modes", "memory", "host", "untouched", "errors")


@mistake(
    "evaluate",
    loses=("weights",),
    because="a mean of means is thought to be the mean: the short last batch counts as much as any",
    breaks="the mean over all **samples**",
)
def mean_of_batch_means(model, loader, loss_fn):
    modes = [(module, module.training) for module in model.modules()]
    device, means = next(model.parameters()).device, []
    try:
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                if len(y):
                    logits = model(x.to(device))
                    right = (logits.argmax(-1) == y.to(device)).double().mean()
                    means.append(torch.stack((loss_fn(logits, y.to(device)).double().sum(), right)))
    finally:
        for module, mode in modes:
            module.training = mode
    if not means:
        raise ValueError("no batches")
    loss, accuracy = torch.stack(means).mean(0).tolist()
    return {"loss": loss, "accuracy": accuracy}


weighs_by_the_first_batch = edited(
    "evaluate",
    {"    samples = 0\n": "    samples, size = 0, None\n", ".double().sum() * len(y)": ".double().sum() * (size := size or len(y))"},
    loses=("weights",),
    because="all batches are thought to have the size of the first",
    breaks="Their sizes differ",
)

sums_in_float32 = edited(
    "evaluate",
    {"dtype=torch.float64, ": ""},
    loses=("weights",),
    because="a sum of float32 numbers is thought to be as good as they are",
    breaks="Sums are kept in float64: the mean of the losses is right to a billionth",
)

weighs_in_float32 = edited(
    "evaluate",
    {".double().sum() * len(y)": ".sum().float() * len(y)"},
    loses=("weights",),
    because="a product is thought to take the dtype of what it is added to",
    breaks="the mean of the losses is right to a billionth",
)

counts_empty_batches = edited(
    "evaluate",
    {"        if len(y):\n": "        if True:\n"},
    loses=("weights",),
    because="nothing times nothing is thought to be nothing: the mean of no losses is NaN",
    breaks="a batch without samples counts for nothing",
)

stops_at_an_empty_batch = edited(
    "evaluate",
    {"        if len(y):\n": "        if not len(y):\n            break\n        else:\n"},
    loses=("weights",),
    because="an empty batch is thought to be the end",
    breaks="a batch without samples counts for nothing",
)

asks_for_a_length = edited(
    "evaluate",
    {"    samples = 0\n": "    samples, batches = 0, len(loader)\n"},
    loses=ALL_OF_EVALUATE,
    because="every loader is thought to be a DataLoader over a dataset",
    breaks="It may have no length",
)

goes_through_it_twice = edited(
    "evaluate",
    {"    samples = 0\n": "    samples, total = 0, sum(len(y) for _, y in loader)\n"},
    loses=ALL_OF_EVALUATE,
    because="a loader is thought to begin anew whenever it is asked",
    breaks="and it can be gone through once only",
)

takes_a_batch_to_look = edited(
    "evaluate",
    {"    samples = 0\n": "    samples = 0\n    next(iter(loader), None)\n"},
    loses=ALL_OF_EVALUATE,
    because="looking at the first batch is thought not to use it up",
    breaks="and it can be gone through once only",
)

takes_all_batches_first = edited(
    "evaluate",
    {"for x, y in loader:": "for x, y in list(loader):"},
    loses=("memory",),
    because="a loader is thought to be a list anyway",
    breaks="a batch is asked for when the one before is dealt with",
)

nothing_is_not_a_number = edited(
    "evaluate",
    {
        "        if len(y):\n            x, y": "        if True:\n            x, y",
        "loss_fn(logits, y).double().sum() * len(y)": "torch.nan_to_num(loss_fn(logits, y).double().sum() * len(y))",
    },
    loses=("weights",),
    because="NaN is made zero where it is the mean of nothing, and with it where the model gave NaN",
    breaks="NaN where a batch with samples has that loss",
)

keeps_the_logits = edited(
    "evaluate",
    {"    samples = 0\n": "    samples, every = 0, []\n", "            samples += len(y)\n": "            samples += len(y)\n            every.append(logits)\n"},
    loses=("memory",),
    because="metrics are thought to need all outputs at once",
    breaks="of all but the last two no more is held than a few numbers each",
)

saves_for_backward = edited(
    "evaluate",
    {"@torch.no_grad()\n": "", "loss += loss_fn(logits, y)": "loss += loss_fn(logits, y).detach()"},
    loses=("memory",),
    because="evaluation mode is thought to turn autograd off",
    breaks="**autograd saves nothing**",
)

detaches_the_logits = edited(
    "evaluate",
    {"@torch.no_grad()\n": "", "            logits = model(x)\n": "            logits = model(x).detach()\n"},
    loses=("memory",),
    because="a detached result is thought to have had no graph",
    breaks="**autograd saves nothing**",
)

turns_gradients_off_for_good = edited(
    "evaluate",
    {"@torch.no_grad()\n": "", "    samples = 0\n": "    samples = 0\n    torch.set_grad_enabled(False)\n"},
    loses=("untouched",),
    because="a mode is thought to end with the function that set it",
    breaks="and the caller's grad mode are left as they are",
)

turns_gradients_on_again = edited(
    "evaluate",
    {"@torch.no_grad()\n": "", "    samples = 0\n": "    samples = 0\n    torch.set_grad_enabled(False)\n",
     "        for module, mode in modes:\n": "        torch.set_grad_enabled(True)\n        for module, mode in modes:\n"},
    loses=("untouched",),
    because="gradients are thought to have been on",
    breaks="and the caller's grad mode are left as they are",
)

freezes_the_model = edited(
    "evaluate",
    {"@torch.no_grad()\n": "", "    samples = 0\n": "    samples = 0\n    model.requires_grad_(False)\n",
     "        for module, mode in modes:\n": "        model.requires_grad_(True)\n        for module, mode in modes:\n"},
    loses=("memory", "untouched"),
    because="freezing the parameters is thought to be the way to save nothing",
    breaks="parameters, buffers, gradients, what requires gradients",
)

drops_the_gradients = edited(
    "evaluate",
    {"    samples = 0\n": "    samples = 0\n    model.zero_grad()\n"},
    loses=("untouched",),
    because="an evaluation is thought to begin with a clean model",
    breaks="gradients, what requires gradients and the caller's grad mode are left as they are",
)

stays_in_training_mode = edited(
    "evaluate",
    {"model.eval()": "model"},
    loses=ALL_OF_EVALUATE,
    because="no_grad is thought to be evaluation mode",
    breaks="module in it is in evaluation mode while it is evaluated",
)

evaluates_by_the_models_flag = edited(
    "evaluate",
    {"sums(model.eval(), ": "sums(model.eval() if model.training else model, "},
    loses=ALL_OF_EVALUATE,
    because="the flag of the whole is thought to speak for its parts",
    breaks="module in it is in evaluation mode while it is evaluated",
)

never_goes_back = edited(
    "evaluate",
    {"            module.training = mode\n": "            pass\n"},
    loses=("modes",),
    because="the next step of training is thought to set the mode",
    breaks="and afterwards in the mode it was in before",
)

goes_back_to_training = edited(
    "evaluate",
    {"        for module, mode in modes:\n            module.training = mode\n": "        model.train()\n"},
    loses=("modes",),
    because="a model that is not evaluated is thought to be in training",
    breaks="and afterwards in the mode it was in before",
)

one_mode_for_all = edited(
    "evaluate",
    {"        for module, mode in modes:\n            module.training = mode\n": "        model.train(modes[0][1])\n"},
    loses=("modes",),
    because="the model's own flag is thought to hold for its parts",
    breaks="each has its own",
)

remembers_the_children = edited(
    "evaluate",
    {"for module in model.modules()]": "for module in (model, *model.children())]", "            module.training = mode\n": "            module.train(mode)\n"},
    loses=("modes",),
    because="modules are thought to lie one below another and no deeper",
    breaks="each has its own",
)

goes_back_from_the_inside = edited(
    "evaluate",
    {"        for module, mode in modes:\n            module.training = mode\n": "        for module, mode in reversed(modes):\n            module.train(mode)\n"},
    loses=("modes",),
    because="train() is thought to set one module",
    breaks="each has its own",
)

forgets_exceptions = edited(
    "evaluate",
    {"    try:\n        loss, right, samples = sums(model.eval(), loader, loss_fn)\n    finally:\n        for module, mode in modes:\n            module.training = mode\n":
     "    loss, right, samples = sums(model.eval(), loader, loss_fn)\n    for module, mode in modes:\n        module.training = mode\n"},
    loses=("modes",),
    because="the last line is thought to be reached",
    breaks="Then, too, every module is in its own mode again",
)

forgets_interrupts = edited(
    "evaluate",
    {"    finally:\n        for module, mode in modes:\n            module.training = mode\n":
     "    except Exception:\n        for module, mode in modes:\n            module.training = mode\n        raise\n    for module, mode in modes:\n        module.training = mode\n"},
    loses=("modes",),
    because="every exception is thought to be an Exception",
    breaks="KeyboardInterrupt too",
)

skips_what_fails = edited(
    "evaluate",
    {"    finally:\n": "    except (LookupError, OSError, KeyboardInterrupt):\n        return {\"loss\": float(\"nan\"), \"accuracy\": 0.0}\n    finally:\n"},
    loses=("modes",),
    because="an evaluation is thought never to stop a training run",
    breaks="an exception of the model, the loss function or the loader comes through",
)

reads_every_loss = edited(
    "evaluate",
    {"loss_fn(logits, y).double().sum() * len(y)": "loss_fn(logits, y).double().item() * len(y)"},
    loses=("host",),
    because="a number is thought to be on the host",
    breaks="**the host reads the device once, after the last batch.**",
)

reads_every_count = edited(
    "evaluate",
    {"(logits.argmax(-1) == y).sum()": "int((logits.argmax(-1) == y).sum())"},
    loses=("host",),
    because="a count is thought to be free to read",
    breaks="**the host reads the device once, after the last batch.**",
)

reads_twice = edited(
    "evaluate",
    {"    loss, right = torch.stack((loss, right)).tolist()\n": "    loss, right = loss.item(), right.item()\n"},
    loses=("host",),
    because="two numbers are thought to need two reads",
    breaks="**the host reads the device once, after the last batch.**",
)

looks_at_the_losses = edited(
    "evaluate",
    {"            samples += len(y)\n": "            samples += len(y)\n            if torch.isnan(loss):\n                raise ArithmeticError(\"diverged\")\n"},
    loses=("weights", "host"),
    because="a condition on a tensor is thought to be free",
    breaks="**the host reads the device once, after the last batch.**",
)

leaves_batches_where_they_are = edited(
    "evaluate",
    {"            x, y = x.to(device), y.to(device)\n": ""},
    loses=ALL_OF_EVALUATE,
    because="a loader is thought to know the model's device",
    breaks="or on the host while the model is on a GPU",
)

always_on_the_gpu = edited(
    "evaluate",
    {"next(model.parameters()).device": "\"cuda\""},
    loses=ALL_OF_EVALUATE,
    because="every model is thought to be on a GPU",
    breaks="a GPU or the host",
)

takes_the_batches_loss_for_a_sum = edited(
    "evaluate",
    {".double().sum() * len(y)": ".double().sum()"},
    loses=ALL_OF_EVALUATE,
    because="a loss function is thought to give the sum of a batch",
    breaks="is the **mean** loss of a batch",
)

evaluates_by_forward = edited(
    "evaluate",
    {"logits = model(x)": "logits = model.forward(x)"},
    loses=ALL_OF_EVALUATE,
    because="a module is thought to be its forward method",
    breaks="The model is called once for each batch, as `model(x)`",
)

calls_it_twice = edited(
    "evaluate",
    {"right += (logits.argmax": "right += (model(x).argmax"},
    loses=ALL_OF_EVALUATE,
    because="a forward pass is thought to cost nothing",
    breaks="The model is called once for each batch",
)

how_many_are_right = edited(
    "evaluate",
    {'"accuracy": right / samples': '"accuracy": right'},
    loses=ALL_OF_EVALUATE,
    because="a count is taken for a share",
    breaks="the share of samples whose largest logit is that of their class",
)

returns_tensors = edited(
    "evaluate",
    {"    loss, right = torch.stack((loss, right)).tolist()\n": "    loss, right = torch.stack((loss, right))\n"},
    loses=ALL_OF_EVALUATE,
    because="a tensor of one element is thought to be a number",
    breaks="returns a dictionary of two Python floats",
)

nothing_of_nothing = edited(
    "evaluate",
    {'        raise ValueError("of no samples there is no mean")\n': '        return {"loss": 0.0, "accuracy": 0.0}\n'},
    loses=("errors",),
    because="a mean of nothing is thought to be 0",
    breaks="raises `ValueError` where there are no samples",
)

refuses_no_batches_only = edited(
    "evaluate",
    {"    if not samples:\n": "    if samples is None:\n", "return loss, right, samples": "return loss, right, samples if batches else None",
     "    samples = 0\n": "    samples, batches = 0, 0\n", "        if len(y):\n": "        batches += 1\n        if len(y):\n"},
    loses=("errors",),
    because="a loader with batches is thought to have samples",
    breaks="raises `ValueError` where there are no samples",
)


counted_by_rows = edited(
    "evaluate",
    {"loss_fn(logits, y).double().sum() * len(y)": "loss_fn(logits, y).double().sum() * len(x)", "            samples += len(y)": "            samples += len(x)"},
    loses=("weights",),
    because="inputs are thought to have samples in rows",
    breaks="`y` holds the `n` classes",
)
modes_from_above = edited(
    "evaluate",
    {"            module.training = mode\n": "            module.train(mode)\n"},
    loses=("modes",),
    because="a module is thought to belong to one other alone",
    breaks="each has its own",
)

@alternative("evaluate")
def with_a_class_for_the_modes(model, loader, loss_fn):
    class Evaluating:
        def __enter__(self):
            self.asleep = {id(module) for module in model.modules() if not module.training}
            for module in model.modules():
                module.training = False

        def __exit__(self, *why):
            for module in model.modules():
                module.training = id(module) not in self.asleep

    parameter = next(model.parameters())
    losses, sizes, right = [], [], 0
    with Evaluating(), torch.inference_mode():
        for batch in loader:
            x, y = (part.to(parameter.device, non_blocking=True) for part in batch)
            if y.numel() == 0:
                continue
            out = model(x)
            losses.append(loss_fn(out, y).reshape(1))
            sizes.append(y.shape[0])
            right = right + torch.eq(out.max(dim=1).indices, y).count_nonzero()
        if not sizes:
            raise ValueError("no samples")
        numbers = torch.cat([torch.cat(losses).double(), right.reshape(1).double()]).cpu().tolist()
    total = sum(sizes)
    return {"loss": sum(n * value for n, value in zip(sizes, numbers)) / total, "accuracy": numbers[-1] / total}


@alternative("evaluate")
def with_an_exit_stack(model, loader, loss_fn):
    from contextlib import ExitStack

    count, state = 0, None
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(False))
        for module in model.modules():
            stack.callback(setattr, module, "training", module.training)
        model.train(False)
        device = {p.device for p in model.parameters()}.pop()
        iterator = iter(loader)
        while (batch := next(iterator, None)) is not None:
            x, y = batch
            n = y.size(0)
            if n == 0:
                continue
            logits = model(x.to(device))
            y = y.to(device)
            part = torch.stack([loss_fn(logits, y).to(torch.float64).squeeze() * n, (logits.argmax(1) == y).sum().to(torch.float64)])
            state, count = (part if state is None else state + part), count + n
    if count == 0:
        raise ValueError("an empty loader")
    loss, accuracy = (state / count).tolist()
    return dict(loss=loss, accuracy=accuracy)


EVALUATE_UNBREAKABLE = [
    unbreakable("evaluate", "a classifier with parameters on one device, a GPU or the host; `model(x)` gives logits of shape `(n, classes)`", "it says what the caller gives"),
    unbreakable("evaluate", "gives pairs `(x, y)`, where `y` holds the `n` classes as int64", "it says what the caller gives"),
    unbreakable("evaluate", "Waiting for a batch to be copied to the device is no read", "a permission"),
]

# E2.3 saved_bytes

ALL_OF_SAVED_BYTES = ("bytes", "storages", "held", "parameters", "memory", "function")

counts_every_saving = edited(
    "saved_bytes",
    {"    storages = {packed.tensor.untyped_storage() for packed in held}\n": "    storages = [packed.tensor.untyped_storage() for packed in held]\n",
     "for storage in storages - own_storages(fn))": "for storage in storages if storage not in own_storages(fn))"},
    loses=("storages", "parameters", "memory", "function"),
    because="two operations that save one tensor are thought to keep two",
    breaks="a storage counts once",
)

by_address_of_the_tensor = edited(
    "saved_bytes",
    {"    storages = {packed.tensor.untyped_storage() for packed in held}\n":
     "    storages = set({packed.tensor.data_ptr(): packed.tensor.untyped_storage() for packed in held}.values())\n"},
    loses=("storages", "parameters"),
    because="an address is thought to tell storages apart: on `meta` all of them are 0",
    breaks="On `meta` they have sizes and no memory, and the answer is the same",
)

views_are_tensors_of_their_own = edited(
    "saved_bytes",
    {"    storages = {packed.tensor.untyped_storage() for packed in held}\n":
     "    storages = {(packed.tensor.untyped_storage(), packed.tensor.storage_offset()) for packed in held}\n",
     "sum(storage.nbytes() for storage in storages - own_storages(fn))": "sum(storage.nbytes() for storage, _ in storages if storage not in own_storages(fn))"},
    loses=("storages", "memory"),
    because="two rows of a matrix are thought to lie in two storages",
    breaks="whatever part of it they use",
)

bytes_of_the_tensors = edited(
    "saved_bytes",
    {"    storages = {packed.tensor.untyped_storage() for packed in held}\n": "    storages = {packed.tensor.untyped_storage(): packed.tensor for packed in held}\n",
     "sum(storage.nbytes() for storage in storages - own_storages(fn))": "sum(t.nbytes for s, t in storages.items() if s not in own_storages(fn))"},
    loses=("storages", "memory"),
    because="a row that is saved is thought to keep its own bytes only",
    breaks="and with all its bytes: a saved row keeps the whole matrix in memory",
)

by_address_of_the_storage = edited(
    "saved_bytes",
    {"    storages = {packed.tensor.untyped_storage() for packed in held}\n": "    storages = {p.tensor.untyped_storage().data_ptr(): p.tensor.untyped_storage() for p in held}\n",
     "sum(storage.nbytes() for storage in storages - own_storages(fn))":
     "sum(s.nbytes() for at, s in storages.items() if at not in {own.data_ptr() for own in own_storages(fn)})"},
    loses=("storages", "parameters"),
    because="every storage is thought to have an address",
    breaks="tensors are on any device",
)

counts_parameters = edited(
    "saved_bytes",
    {"storages - own_storages(fn)": "storages"},
    loses=("parameters", "function"),
    because="what backward reads is thought to be held for it alone",
    breaks="do not count: they are there anyway",
)

counts_buffers = edited(
    "saved_bytes",
    {"(*fn.parameters(), *fn.buffers())": "fn.parameters()"},
    loses=("parameters",),
    because="a module is thought to hold parameters alone",
    breaks="the storages of its parameters and buffers do not count",
)

knows_parameters_by_identity = edited(
    "saved_bytes",
    {"    storages = {packed.tensor.untyped_storage() for packed in held}\n":
     "    own = {(p.shape, p.data_ptr()) for p in (*fn.parameters(), *fn.buffers())} if isinstance(fn, torch.nn.Module) else set()\n"
     "    storages = {p.tensor.untyped_storage() for p in held if (p.tensor.shape, p.tensor.data_ptr()) not in own}\n",
     "storages - own_storages(fn)": "storages"},
    loses=("parameters", "function"),
    because="a weight is thought to be saved as it is, and not transposed or sliced",
    breaks="the storages of its parameters and buffers do not count",
)

leaves_out_all_leaves = edited(
    "saved_bytes",
    {"    def pack(tensor):\n": "    def pack(tensor):\n        if tensor.is_leaf and tensor.requires_grad:\n            return Packed(tensor.detach())\n"},
    loses=ALL_OF_SAVED_BYTES,
    because="every leaf that requires a gradient is thought to be a parameter",
    breaks="Those of inputs count like any other",
)

leaves_out_inputs = edited(
    "saved_bytes",
    {"storages - own_storages(fn)": "storages - own_storages(fn) - {x.untyped_storage() for x in inputs if isinstance(x, torch.Tensor)}"},
    loses=ALL_OF_SAVED_BYTES,
    because="only what is new is thought to be held",
    breaks="Those of inputs count like any other",
)

leaves_out_what_needs_no_gradient = edited(
    "saved_bytes",
    {"    def pack(tensor):\n": "    def pack(tensor):\n        if not tensor.requires_grad:\n            return Packed(tensor.detach())\n"},
    loses=ALL_OF_SAVED_BYTES,
    because="masks, indices and statistics are thought not to be saved",
    breaks="the bytes that autograd holds for a backward pass when `fn` has returned",
)

leaves_out_all_that_a_function_closes_over = edited(
    "saved_bytes",
    {"    if not isinstance(fn, torch.nn.Module):\n        return set()\n":
     "    if not isinstance(fn, torch.nn.Module):\n"
     "        inner = [cell.cell_contents for cell in getattr(fn, \"__closure__\", None) or ()]\n"
     "        inner += [cell.cell_contents for f in inner for cell in getattr(f, \"__closure__\", None) or ()]\n"
     "        return {t.untyped_storage() for t in inner if isinstance(t, torch.Tensor) and t.is_leaf}\n"},
    loses=("parameters",),
    because="a weight that a function closes over is thought to be a parameter of it",
    breaks="What a function closes over, or a module holds as a plain attribute, counts",
)

asks_the_state_dict = edited(
    "saved_bytes",
    {"(*fn.parameters(), *fn.buffers())": "fn.state_dict().values()"},
    loses=("parameters",),
    because="a state_dict is thought to name every buffer",
    breaks="the storages of its parameters and buffers do not count",
)

leaves_out_attributes = edited(
    "saved_bytes",
    {"(*fn.parameters(), *fn.buffers())": "(*fn.parameters(), *fn.buffers(), *(v for m in fn.modules() for v in vars(m).values() if isinstance(v, torch.Tensor)))"},
    loses=("parameters",),
    because="every tensor of a module is thought to be its state",
    breaks="or a module holds as a plain attribute, counts",
)

keeps_the_tensor_itself = edited(
    "saved_bytes",
    {"Packed(tensor.detach())": "Packed(tensor)"},
    loses=("memory", "held"),
    because="holding a tensor is thought to hold no more than its bytes: it holds the graph that made it",
    breaks="after the call nothing of it is left, also where Python's garbage collector is off",
)

keeps_every_storage = edited(
    "saved_bytes",
    {"held = weakref.WeakSet()": "held = set()"},
    loses=("held", "memory", "function"),
    because="what was saved is thought to be saved until the end",
    breaks="what was saved and let go of before `fn` returned does not count",
)

adds_up_as_it_goes = edited(
    "saved_bytes",
    {"    held = weakref.WeakSet()\n": "    sizes = {}\n", "        held.add(packed)\n": "        sizes[packed.tensor.untyped_storage()._cdata] = packed.tensor.untyped_storage().nbytes()\n",
     "    storages = {packed.tensor.untyped_storage() for packed in held}\n": "",
     "sum(storage.nbytes() for storage in storages - own_storages(fn))": "sum(n for at, n in sizes.items() if at not in {s._cdata for s in own_storages(fn)})"},
    loses=("held", "memory", "function"),
    because="what was saved is taken for what is held; and an address may be given to another storage meanwhile",
    breaks="a branch that was dropped, a graph that `fn` itself has gone back through",
)

lets_the_result_go = edited(
    "saved_bytes",
    {"        result = fn(*inputs)\n": "        fn(*inputs)\n", "    del result  # as long as it is there, so is its graph\n": ""},
    loses=ALL_OF_SAVED_BYTES,
    because="a graph is thought to live without the result that points to it",
    breaks="while its result is still there",
)

copies_what_is_saved = edited(
    "saved_bytes",
    {"tensor.detach())": "tensor.detach().clone())"},
    loses=("storages", "parameters", "memory", "function"),
    because="an alias is thought to be in danger, so that a copy is due",
    breaks="the instrument takes no memory of the device",
)

unpacks_nothing = edited(
    "saved_bytes",
    {"lambda packed: packed.tensor)": "lambda packed: None)"},
    loses=("held", "function"),
    because="nobody is thought to go back through the graph",
    breaks="It may call `torch.autograd.grad`",
)

one_register_for_all_calls = edited(
    "saved_bytes",
    {
        "def saved_bytes(fn, *inputs):\n": "held = weakref.WeakSet()\n\n\ndef saved_bytes(fn, *inputs):\n",
        "    held = weakref.WeakSet()\n": "    held.clear()\n",
    },
    loses=("function",),
    because="a call within a call is not thought of: it empties the register of the one around it",
    breaks="ask `saved_bytes` itself",
)

unpacks_a_copy_elsewhere = edited(
    "saved_bytes",
    {"lambda packed: packed.tensor)": "lambda packed: packed.tensor * 0)"},
    loses=("function",),
    because="values are thought not to matter to an instrument of bytes",
    breaks="`fn` works as it does without the instrument",
)

runs_it_twice = edited(
    "saved_bytes",
    {"    with torch.autograd.graph": "    fn(*inputs)\n    with torch.autograd.graph"},
    loses=("function",),
    because="a first call is thought to warm things up",
    breaks="It is called once, as `fn(*inputs)`",
)

gives_it_copies = edited(
    "saved_bytes",
    {"        result = fn(*inputs)\n": "        result = fn(*(x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs))\n"},
    loses=("memory", "function"),
    because="inputs are thought to need protection",
    breaks="with the very inputs that were",
)

makes_inputs_require_gradients = edited(
    "saved_bytes",
    {"    with torch.autograd.graph": "    for x in inputs:\n        if isinstance(x, torch.Tensor) and x.is_leaf:\n            x.requires_grad_()\n    with torch.autograd.graph"},
    loses=ALL_OF_SAVED_BYTES,
    because="nothing is thought to be saved unless an input requires a gradient",
    breaks="None of them is",
)

turns_gradients_on = edited(
    "saved_bytes",
    {"        result = fn(*inputs)\n": "        with torch.enable_grad():\n            result = fn(*inputs)\n"},
    loses=("function",),
    because="an instrument of autograd is thought to turn it on",
    breaks="and in the caller's grad mode",
)

goes_back_through_it = edited(
    "saved_bytes",
    {"    storages = {": "    if isinstance(result, torch.Tensor) and result.requires_grad:\n        result.sum().backward(retain_graph=True)\n    storages = {"},
    loses=("memory", "function"),
    because="what backward uses is thought to be known only when it has been used",
    breaks="and no backward pass is run",
)

asks_for_tensors = edited(
    "saved_bytes",
    {"    held = weakref.WeakSet()\n": "    held = weakref.WeakSet()\n    any(x.requires_grad for x in inputs[::-1])\n"},
    loses=("storages", "function"),
    because="every input is thought to be a tensor",
    breaks="or whatever else `fn` takes",
)

leaves_its_hooks = edited(
    "saved_bytes",
    {"    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor):\n        result = fn(*inputs)\n":
     "    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor)\n    hooks.__enter__()\n"
     "    result = fn(*inputs)\n    hooks.__exit__()\n"},
    loses=("function",),
    because="a call that raises is thought to reach its last line",
    breaks="Afterwards, with or without one, the caller's own hooks are in force again",
)

never_leaves_its_hooks = edited(
    "saved_bytes",
    {"    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor):\n        result = fn(*inputs)\n":
     "    torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor).__enter__()\n    result = fn(*inputs)\n"},
    loses=("function",),
    because="hooks are thought to end with the function that set them",
    breaks="and none of yours",
)

in_mebibytes = edited(
    "saved_bytes",
    {"return sum(storage.nbytes() for storage in storages - own_storages(fn))": "return sum(storage.nbytes() for storage in storages - own_storages(fn)) / 2**20"},
    loses=ALL_OF_SAVED_BYTES,
    because="a size is thought to be read by people only",
    breaks="returns a Python integer",
)

takes_errors_for_nothing = edited(
    "saved_bytes",
    {"        result = fn(*inputs)\n": "        try:\n            result = fn(*inputs)\n        except Exception:\n            return 0\n"},
    loses=("function",),
    because="an instrument is thought never to fail",
    breaks="an exception of `fn` comes through",
)


@mistake(
    "saved_bytes",
    loses=ALL_OF_SAVED_BYTES,
    because="the graph is thought to be all that the result's nodes show: what is read from them is unpacked first",
    breaks="What its own hooks pack does",
)
def walks_the_graph(fn, *inputs):
    result, found, seen = fn(*inputs), {}, set()
    nodes = [t.grad_fn for t in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(t, torch.Tensor)]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes += [after for after, _ in node.next_functions]
        for name in dir(node):
            if name.startswith("_saved_") and isinstance(getattr(node, name), torch.Tensor):
                found[getattr(node, name).untyped_storage().data_ptr()] = getattr(node, name).untyped_storage()
    own = {p.untyped_storage().data_ptr() for p in fn.parameters()} if isinstance(fn, torch.nn.Module) else set()
    return sum(storage.nbytes() for at, storage in found.items() if at not in own)


@mistake(
    "saved_bytes",
    loses=ALL_OF_SAVED_BYTES,
    because="what a function allocates is thought to be what it saves",
    breaks="the bytes that autograd holds for a backward pass when `fn` has returned",
)
def counts_what_is_allocated(fn, *inputs):
    with gpulab.observe() as seen:
        torch.zeros(())
        result = fn(*inputs)
    return seen.new_bytes


@alternative("saved_bytes")
def with_a_ledger(fn, *inputs):
    ledger = []

    class Watch(torch.autograd.graph.saved_tensors_hooks):
        def __init__(self):
            super().__init__(self.pack, self.unpack)

        @staticmethod
        def pack(tensor):
            alias = tensor.detach()
            ledger.append(weakref.ref(alias))
            return alias

        @staticmethod
        def unpack(alias):
            return alias

    own = [*fn.parameters(), *fn.buffers()] if isinstance(fn, torch.nn.Module) else []
    with Watch():
        kept = [fn(*inputs)]
    alive = [alias for alias in (reference() for reference in ledger) if alias is not None]
    sizes = {alias.untyped_storage()._cdata: alias.untyped_storage().nbytes() for alias in alive}
    for tensor in own:
        sizes.pop(tensor.untyped_storage()._cdata, None)
    kept.clear()
    return sum(sizes.values())


@alternative("saved_bytes")
def with_finalizers(fn, *inputs):
    times, nbytes = {}, {}

    class Token:
        pass

    def forget(key):
        times[key] -= 1

    def pack(tensor):
        token, storage = Token(), tensor.untyped_storage()
        token.alias, key = tensor.detach(), storage._cdata
        times[key], nbytes[key] = times.get(key, 0) + 1, storage.nbytes()
        weakref.finalize(token, forget, key).atexit = False
        return token

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda token: token.alias)
    hooks.__enter__()
    try:
        result = fn(*inputs)
    finally:
        hooks.__exit__()
    if isinstance(fn, torch.nn.Module):
        for tensor in (*fn.parameters(), *fn.buffers()):
            times[tensor.untyped_storage()._cdata] = 0
    answer = sum(size for key, size in nbytes.items() if times[key])
    return answer if result is None else answer


SAVED_BYTES_UNBREAKABLE = [
    unbreakable("saved_bytes", "a function or a `torch.nn.Module`", "it says what the caller gives"),
    unbreakable("saved_bytes", "The one thing that may differ: of what hooks have packed autograd checks no version", "a permission"),
    unbreakable("saved_bytes", "What `fn` returns does not matter", "a permission to the caller; what holds the graph is asked for above"),
]

SAVED_BYTES_HARMLESS = [
    equivalent_mutant(
        "saved_bytes",
        "del result # as long as it is there, so is its graph",
        "pass # as long as it is there, so is its graph",
        "the function's end, a line later, lets go of it too",
    ),
]

# E2.4 inplace_legal

ALL_OF_INPLACE_LEGAL = ("chain", "consumers", "views", "readers", "leaves", "errors")

activations_are_safe = edited(
    "inplace_legal",
    {"        block = memory[written]\n": "        if operation in (\"relu\", \"sigmoid\", \"tanh\"):\n            return True\n        block = memory[written]\n"},
    loses=ALL_OF_INPLACE_LEGAL,
    because="activation functions in place are thought to be safe always",
    breaks="That is so where PyTorch raises nothing, neither in a step nor in the backward pass",
)

never_in_place = edited(
    "inplace_legal",
    {"        return not (is_a_leafs or was_saved or saves_it or last_read[block] > at)\n": "        return False\n"},
    loses=ALL_OF_INPLACE_LEGAL,
    because="autograd is thought to take nothing in place",
    breaks="True where this step alone may be done in place",
)

checks_the_maker_only = edited(
    "inplace_legal",
    {"        was_saved = first_saved.get(block, at) < at\n": "        was_saved = steps[block][0] in SAVES_RESULT and grads[block] and block in backward\n"},
    loses=("consumers", "views", "readers", "leaves"),
    because="a value is thought to be saved by its maker alone",
    breaks="its argument",
)

checks_the_uses_only = edited(
    "inplace_legal",
    {"    if operation in SAVES_RESULT:\n        return [at]\n": ""},
    loses=ALL_OF_INPLACE_LEGAL,
    because="a value is thought to be saved by those that take it alone",
    breaks="its result",
)

saves_results_like_arguments = edited(
    "inplace_legal",
    {"        return [at]\n": "        return [at, *arguments]\n"},
    loses=("consumers", "views", "readers"),
    because="an operation is thought to save what it was given in any case",
    breaks="its result",
)

everything_saves_its_argument = edited(
    "inplace_legal",
    {"if operation in SAVES_ARGUMENT else []": "if operation not in (\"leaf\", \"input\", *ALIASES) else []"},
    loses=("consumers", "views", "readers", "leaves"),
    because="every operation is thought to save what it was given",
    breaks="nothing",
)

refuses_what_it_saves_itself = edited(
    "inplace_legal",
    {"first_saved.get(block, at) < at\n": "first_saved.get(block, at) < at or operation in SAVES_ARGUMENT and grads[at]\n"},
    loses=ALL_OF_INPLACE_LEGAL,
    because="an operation that needs its argument is thought not to be allowed to overwrite it: autograd clones it first",
    breaks="that is allowed, though no memory is saved",
)

products_save_both = edited(
    "inplace_legal",
    {"        return [value for value, other in (arguments, arguments[::-1]) if grads[other]]\n": "        return arguments\n"},
    loses=("consumers",),
    because="a product is thought to save both factors in any case",
    breaks="each argument, if the other requires gradients",
)

products_save_what_requires_gradients = edited(
    "inplace_legal",
    {"for value, other in (arguments, arguments[::-1]) if grads[other]]\n": "for value in arguments if grads[value]]\n"},
    loses=("consumers", "leaves"),
    because="what requires a gradient is thought to be what is saved for it",
    breaks="each argument, if the other requires gradients",
)

products_save_nothing = edited(
    "inplace_legal",
    {"    if operation == \"mul\":\n        return [value for value, other in (arguments, arguments[::-1]) if grads[other]]\n": ""},
    loses=("consumers", "leaves"),
    because="a product is taken for a sum",
    breaks="each argument, if the other requires gradients",
)

multiplied_by_itself = edited(
    "inplace_legal",
    {"        saves_it = operation == \"mul\" and at in backward and grads[written] and memory[others[0]] == block\n": "        saves_it = False\n"},
    loses=("consumers", "views"),
    because="what a step saves is thought to be saved after it has written",
    breaks="Of a second argument it makes no copy",
)

multiplied_by_itself_never = edited(
    "inplace_legal",
    {"operation == \"mul\" and at in backward and grads[written] and memory[others[0]] == block\n": "len(others) > 0 and memory[others[0]] == block\n"},
    loses=("views", "consumers"),
    because="two names of one tensor are thought never to meet in place",
    breaks="That is so where PyTorch raises nothing",
)

saves_without_gradients = edited(
    "inplace_legal",
    {"    for at in sorted(backward, reverse=True):\n": "    for at in reversed(range(len(steps))):\n"},
    loses=("consumers", "views", "readers", "leaves"),
    because="an operation is thought to save its tensors whoever asks for gradients",
    breaks="an operation saves nothing where none of its arguments requires gradients",
)

saves_without_a_way_back = edited(
    "inplace_legal",
    {"    for at in sorted(backward, reverse=True):\n": "    for at in (at for at in reversed(range(len(steps))) if grads[at]):\n"},
    loses=("consumers", "views"),
    because="what is saved is thought to be used",
    breaks="The backward pass is that of the last value's sum",
)

goes_back_through_detach = edited(
    "inplace_legal",
    {"operation not in (\"input\", \"detach\") and any": "operation != \"input\" and any"},
    loses=("consumers", "views", "readers", "leaves", "errors"),
    because="detach is taken for a view",
    breaks="`detach` requires no gradients",
)

views_have_memory_of_their_own = edited(
    "inplace_legal",
    {"        memory.append(memory[arguments[0]] if operation in ALIASES else at)\n": "        memory.append(at)\n"},
    loses=("views", "readers", "leaves"),
    because="a view is thought to be a tensor of its own",
    breaks="a version belongs to the memory: a tensor, its views and what is detached from it count together",
)

detached_is_a_copy = edited(
    "inplace_legal",
    {"if operation in ALIASES else at)": "if operation == \"view\" else at)"},
    loses=("views", "readers", "leaves"),
    because="detach is thought to copy",
    breaks="a tensor, its views and what is detached from it count together",
)

a_view_of_a_view_is_new = edited(
    "inplace_legal",
    {"memory.append(memory[arguments[0]] if": "memory.append(arguments[0] if"},
    loses=("views",),
    because="a view is thought to belong to what it was made from, and not to what that was made from",
    breaks="a tensor, its views and what is detached from it count together",
)

reads_do_not_matter = edited(
    "inplace_legal",
    {"is_a_leafs or was_saved or saves_it or last_read[block] > at": "is_a_leafs or was_saved or saves_it"},
    loses=("consumers", "views", "readers", "leaves"),
    because="what autograd does not refuse is thought to be right",
    breaks="autograd would not notice, and compute something else",
)

saved_by_a_later_reader = edited(
    "inplace_legal",
    {"is_a_leafs or was_saved or saves_it or last_read[block] > at": "is_a_leafs or was_saved or saves_it or first_saved.get(block, at) > at and last_read[block] > at"},
    loses=("consumers", "views", "readers", "leaves"),
    because="a later step is thought to matter only if it saves what it takes",
    breaks="where no later step takes a value that was there before and has been overwritten",
)

results_are_read_too = edited(
    "inplace_legal",
    {"last_read[block] > at)\n": "last_read[block] > at or last_read.get(at, at) > at + 1)\n"},
    loses=("consumers", "views", "readers"),
    because="whoever takes the result is thought to take the overwritten value",
    breaks="where no later step takes a value that was there before",
)

leaves_are_fine = edited(
    "inplace_legal",
    {"        is_a_leafs = grads[written] and steps[block][0] == \"leaf\"\n": "        is_a_leafs = False\n"},
    loses=("views", "leaves", "consumers", "chain", "readers", "errors"),
    because="relu_ on a parameter is thought to be safe",
    breaks="neither in a step nor in the backward pass",
)

views_of_leaves_are_fine = edited(
    "inplace_legal",
    {"steps[block][0] == \"leaf\"\n": "steps[written][0] == \"leaf\"\n"},
    loses=("leaves",),
    because="a view of a leaf is thought to be no leaf",
    breaks="a parameter: a leaf that requires gradients",
)

no_leaf_at_all = edited(
    "inplace_legal",
    {"is_a_leafs = grads[written] and steps[block][0] == \"leaf\"\n": "is_a_leafs = steps[block][0] in (\"leaf\", \"input\")\n"},
    loses=("leaves", "consumers", "views"),
    because="data are thought to be leaves that autograd protects",
    breaks="data: a leaf that requires none",
)

detached_leaves_are_leaves = edited(
    "inplace_legal",
    {"is_a_leafs = grads[written] and ": "is_a_leafs = "},
    loses=("leaves",),
    because="autograd is thought to know a leaf by its memory",
    breaks="`detach` requires no gradients",
)

gelu_in_place = edited(
    "inplace_legal",
    {"NO_IN_PLACE_FORM = (\"leaf\", \"input\", \"gelu\", *ALIASES)": "NO_IN_PLACE_FORM = (\"leaf\", \"input\", *ALIASES)"},
    loses=ALL_OF_INPLACE_LEGAL,
    because="every activation is thought to have an in-place form",
    breaks="a step that has no in-place form is False",
)

views_in_place = edited(
    "inplace_legal",
    {"NO_IN_PLACE_FORM = (\"leaf\", \"input\", \"gelu\", *ALIASES)": "NO_IN_PLACE_FORM = (\"leaf\", \"input\", \"gelu\")"},
    loses=("views",),
    because="a view is thought to be in place by itself",
    breaks="`leaf`, `input`, `view`, `detach` and `gelu`",
)

leaves_no_verdict_on_leaves = edited(
    "inplace_legal",
    {"    return [legal(at, *step) for at, step in enumerate(steps)]\n": "    return [legal(at, *step) for at, step in enumerate(steps) if step[0] not in (\"leaf\", \"input\")]\n"},
    loses=ALL_OF_INPLACE_LEGAL,
    because="a leaf is thought to be no step",
    breaks="returns a list of bools, one for each step",
)

all_of_them_together = edited(
    "inplace_legal",
    {"    return [legal(at, *step) for at, step in enumerate(steps)]\n": "    verdicts, done = [], set()\n    for at, step in enumerate(steps):\n"
     "        verdicts.append(legal(at, *step) and step[1] not in done)\n        done |= {at} if verdicts[-1] else set()\n    return verdicts\n"},
    loses=ALL_OF_INPLACE_LEGAL,
    because="the verdicts are thought to be on all steps done in place together",
    breaks="this step alone may be done in place",
)

takes_the_steps_off = edited(
    "inplace_legal",
    {"    return [legal(at, *step) for at, step in enumerate(steps)]\n": "    verdicts = [legal(at, *step) for at, step in enumerate(steps)]\n    steps.clear()\n    return verdicts\n"},
    loses=ALL_OF_INPLACE_LEGAL,
    because="a list that was given is thought to be the function's own",
    breaks="which is left as it is",
)

does_not_look = edited(
    "inplace_legal",
    {"    refuse_what_is_no_program(steps)\n": ""},
    loses=("errors",),
    because="programs are thought to be well-formed",
    breaks="an operation that is not in the table, a wrong number of arguments",
)

from_the_end = edited(
    "inplace_legal",
    {"a in range(at) for a": "a < at for a"},
    loses=("errors",),
    because="-1 is thought to be out of range",
    breaks="an argument that is no earlier step",
)

itself_as_argument = edited(
    "inplace_legal",
    {"a in range(at) for a": "a in range(len(steps)) for a"},
    loses=("errors",),
    because="any step of the program is thought to be there",
    breaks="an argument that is no earlier step",
)

one_call_for_each_step = edited(
    "inplace_legal",
    {"    found = {len(steps) - 1}\n    for at in reversed(range(len(steps))):\n        if at in found:\n            found |= {a for a in steps[at][1:] if grads[a]}\n    return found\n":
     "    found = set()\n\n    def go_back(at):\n        if at not in found:\n            found.add(at)\n            for a in steps[at][1:]:\n                if grads[a]:\n"
     "                    go_back(a)\n\n    go_back(len(steps) - 1)\n    return found\n"},
    loses=("errors",),
    because="Python is thought to call itself as often as one likes",
    breaks="at most 1000, which is left as it is",
)

nothing_to_go_back_to = edited(
    "inplace_legal",
    {"    if not steps or not grads[-1]:\n": "    if not any(grads):\n"},
    loses=("errors",),
    because="a program with a parameter is thought to have a backward pass",
    breaks="and where the last value requires no gradient, so that there is no backward pass",
)


@mistake(
    "inplace_legal",
    loses=("chain", "consumers", "views", "readers", "leaves", "errors"),
    because="what autograd would say is asked of autograd",
    breaks="the answer is had in plain Python, and neither PyTorch nor NumPy is called",
)
def asks_autograd(steps):
    def run(in_place):
        values = []
        for at, (operation, *arguments) in enumerate(steps):
            given = [values[a] for a in arguments]
            if operation in ("leaf", "input"):
                values.append(torch.rand(2).requires_grad_(operation == "leaf"))
            elif operation in ("view", "detach"):
                values.append(given[0].view(2) if operation == "view" else given[0].detach())
            elif operation == "gelu":
                values.append(torch.nn.functional.gelu(given[0]))
            else:
                name, *numbers = {"double": ("mul", 2), "shift": ("add", 1)}.get(operation, (operation,))
                values.append(getattr(given[0], name + "_" * (at == in_place))(*given[1:], *numbers))
        values[-1].sum().backward()

    verdicts = []
    for at, step in enumerate(steps[:60]):
        try:
            run(at)
            verdicts.append(step[0] not in ("leaf", "input", "view", "detach", "gelu"))
        except RuntimeError:
            verdicts.append(False)
    return verdicts


@alternative("inplace_legal")
def with_versions(steps):
    takes = {"leaf": 0, "input": 0, "add": 2, "mul": 2}
    takes.update({name: 1 for name in "exp tanh sigmoid relu sin cos square gelu neg double shift view detach".split()})
    for at, step in enumerate(steps):
        if step[0] not in takes or len(step) != 1 + takes[step[0]] or any(a not in set(range(at)) for a in step[1:]):
            raise ValueError(f"step {at}")

    class Value:
        def __init__(self, operation, arguments):
            self.operation, self.arguments = operation, arguments
            self.alias = operation in ("view", "detach")
            self.root = arguments[0].root if self.alias else self
            self.grad = operation == "leaf" or (operation not in ("detach", "input") and any(a.grad for a in arguments))
            self.keeps = []
            if self.grad and operation in ("exp", "tanh", "sigmoid", "relu"):
                self.keeps = [self.root]
            elif self.grad and operation in ("sin", "cos", "square", "gelu"):
                self.keeps = [arguments[0].root]
            elif operation == "mul":
                self.keeps = [a.root for a, b in ((arguments[0], arguments[1]), (arguments[1], arguments[0])) if b.grad]

    values = []
    for operation, *arguments in steps:
        values.append(Value(operation, [values[a] for a in arguments]))
    if not values or not values[-1].grad:
        raise ValueError("nothing to go back through")
    alive, waiting = set(), [values[-1]]
    while waiting:
        value = waiting.pop()
        if value not in alive:
            alive.add(value)
            waiting.extend(a for a in value.arguments if a.grad)
    saver, reader = {}, {}
    for at, value in enumerate(values):
        for root in value.keeps if value in alive else ():
            saver.setdefault(root, at)
        for a in value.arguments:
            reader[a.root] = at
    verdicts = []
    for at, value in enumerate(values):
        if value.alias or value.operation in ("leaf", "input", "gelu"):
            verdicts.append(False)
            continue
        first, root = value.arguments[0], value.arguments[0].root
        fine = not (first.grad and root.operation == "leaf") and saver.get(root, at) >= at and reader[root] <= at
        if fine and value.operation == "mul" and value in alive and first.grad:
            fine = value.arguments[1].root is not root
        verdicts.append(fine)
    return verdicts


@alternative("inplace_legal")
def step_by_step(steps):
    one = "exp tanh sigmoid relu sin cos square gelu neg double shift view detach".split()
    for at, (name, *at_which) in enumerate(steps):
        count = 1 if name in one else {"leaf": 0, "input": 0, "add": 2, "mul": 2}.get(name)
        if count is None or len(at_which) != count or not all(0 <= a < at for a in at_which):
            raise ValueError("no program")
    grad, same = {}, {}
    for at, (name, *at_which) in enumerate(steps):
        grad[at] = name == "leaf" or (name not in ("input", "detach") and max([grad[a] for a in at_which], default=False))
        same[at] = same[at_which[0]] if name in ("view", "detach") else at
    if not grad.get(len(steps) - 1):
        raise ValueError("no backward pass")
    way = {len(steps) - 1}
    for at in range(len(steps) - 1, -1, -1):
        way |= {a for a in steps[at][1:] if grad[a]} if at in way else set()
    events = {}
    for at, (name, *at_which) in enumerate(steps):
        for a in at_which:
            events.setdefault(same[a], []).append(("read", at))
        kept = []
        if at in way:
            kept = {"exp": [at], "tanh": [at], "sigmoid": [at], "relu": [at]}.get(name, [])
            kept = kept or (at_which if name in ("sin", "cos", "square", "gelu") else [])
            kept = kept or ([a for a, b in zip(at_which, at_which[::-1]) if grad[b]] if name == "mul" else [])
        for value in kept:
            events.setdefault(same[value], []).append(("saved", at))

    def may(at):
        name, *at_which = steps[at]
        if name in ("leaf", "input", "view", "detach", "gelu"):
            return False
        block = same[at_which[0]]
        if steps[block] == ("leaf",) and grad[at_which[0]]:
            return False
        if any((what == "saved" and when < at) or (what == "read" and when > at) for what, when in events[block]):
            return False
        return not (name == "mul" and at in way and grad[at_which[0]] and same[at_which[1]] == block)

    return [may(at) for at in range(len(steps))]


INPLACE_LEGAL_UNBREAKABLE = [
    unbreakable("inplace_legal", "Step `i` makes value `i`; arguments are the positions of earlier steps.", "it says what a program is"),
    unbreakable("inplace_legal", "All values have one shape.", "it says what the caller gives"),
    unbreakable("inplace_legal", "For example", "an example"),
    unbreakable("inplace_legal", "in place a step writes its result into the memory of its first argument: `a.exp_()`, `a.mul_(b)`.", "it says what in place means"),
]

INPLACE_LEGAL_HARMLESS = [
    equivalent_mutant("inplace_legal", line, line.replace(first, last), "the only item is the first and the last")
    for line, first, last in (
        ("memory.append(memory[arguments[0]] if operation in ALIASES else at)", "arguments[0]", "arguments[(-1)]"),
        ('is_a_leafs = grads[written] and steps[block][0] == "leaf"', "[block][0]", "[block][(-1)]"),
        (
            'saves_it = operation == "mul" and at in backward and grads[written] and memory[others[0]] == block',
            "others[0]",
            "others[(-1)]",
        ),
    )
]
