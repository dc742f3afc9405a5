"""What is asked of each recorded run, in the order in which a reader meets them: one right diagnosis, and why the others are not."""

from gpulab.widgets.quiz import Question, right, wrong

ASKED = "What happened to this run?"
QUESTIONS: dict[str, Question] = {
    "bad batch": Question.ask(
        ASKED,
        right(
            "One batch was broken",
            "One step: its loss and its gradient norm leap together, the next batch is as before, and the held-out loss never "
            "moved. Clipping kept the harm to one step of ordinary length. Look at the batch; skip it when it comes again.",
        ),
        wrong(
            "The learning rate is too high",
            "Then steps before and after would suffer too. The rate is where it has been for a hundred steps, and falling.",
        ),
        wrong(
            "A bit flipped in a weight",
            "A weight stays wrong. Loss and held-out loss would not be back in the next step.",
        ),
        wrong(
            "Nothing: noise",
            "The loss is six times its neighbours, where the noise is a fraction of them. And noise has no date.",
        ),
    ),
    "stale sampler": Question.ask(
        ASKED,
        wrong(
            "Nothing: it learns faster than the others",
            "The loss of the batches falls, and the held-out loss stands still from step 130 on. It learns by heart.",
        ),
        wrong(
            "A shard of the data is wrong",
            "Wrong data raises the loss of its batches. Here it is too low.",
        ),
        right(
            "It reads the same batches again and again",
            "Batches that were seen before have a low loss, and what was never seen does not profit. The job is restarted every 40 steps and "
            "its sampler begins at the start each time: 40 batches of 150 are all that it ever reads.",
        ),
        wrong(
            "The learning rate is too low",
            "Then both losses would be flat. One of them falls below that of every other run.",
        ),
    ),
    "flipped bit": Question.ask(
        ASKED,
        wrong(
            "One batch was broken",
            "The step after a bad batch is well again, since the step that was made of it is short. Here 150 steps do not mend it.",
        ),
        right(
            "A bit flipped in a weight",
            "From one step to the next *everything* is worse: loss, held-out loss, and for good, with an ordinary rate and without a warning. One element of "
            "the camera's bias became about 1e37, so the norms after it turn all that the camera sees to zero. AdamW moves it by a thousandth a step. "
            "Load the last checkpoint; replayed from there, the step is clean.",
        ),
        wrong(
            "A shard of the data is wrong",
            "A shard has 25 steps, and the held-out frames are not in it. Both losses stay high until the end.",
        ),
        wrong(
            "fp16 overflowed",
            "The scale fell three times and then stood. Most steps after it are taken, and the loss is a finite number.",
        ),
    ),
    "healthy": Question.ask(
        ASKED,
        wrong(
            "One batch was broken",
            "Its norm leaps early, in the warm-up, and its loss does not. A leap of the norm alone, among other leaps, is a batch that teaches much.",
        ),
        wrong(
            "Training stands still", "Loss and held-out loss still fall at the end, more slowly because the rate does."
        ),
        right(
            "Nothing: it is healthy",
            "Loss and held-out loss fall together, the norm wanders by a factor of a few, the scale doubles after each 100 clean steps. A healthy run has spikes of the norm; what it has not is a loss that stays.",
        ),
        wrong(
            "The loss scale grows without end",
            "It doubles after 100 clean steps, as it should, until a step overflows; then it would halve.",
        ),
    ),
    "overflow": Question.ask(
        ASKED,
        wrong(
            "The gradients exploded",
            "Until the first overflow the norm is as in the healthy run. What became infinite is the forward pass: the loss is no number either.",
        ),
        wrong(
            "A bit flipped in a weight",
            "The weights are those of the last good step: every step since is skipped. In float32 the same weights give an ordinary loss.",
        ),
        wrong(
            "Nothing: a scaler skips steps now and then",
            "Now and then, yes. This one halves its scale in every step from 190 on, and no scale helps against a forward pass that overflows.",
        ),
        right(
            "fp16 overflowed, for good",
            "First some steps overflow, then all. Each is skipped and halves the scale, and 100 steps later it is below 2^-100. Activations outgrew 65,504, "
            "as those of a model that was trained in bf16 may. Run it in bf16.",
        ),
    ),
    "poisoned shard": Question.ask(
        ASKED,
        wrong("One batch was broken", "The loss is high for 25 steps, and it happens twice."),
        wrong(
            "The learning rate is too high",
            "Both bumps begin at once, in steps 75 and 175, and pass in 25 steps, while the rate changes smoothly.",
        ),
        wrong("fp16 overflowed", "Every number is finite, and the scale doubles as it should."),
        right(
            "A shard of the data is wrong",
            "Twice, once in each epoch of 150 steps, the loss is high for as long as a shard is: 25 batches. The held-out loss is harmed "
            "less and later, by what the wrong actions teach. The steps say which shard: look at its labels.",
        ),
    ),
    "learning rate": Question.ask(
        ASKED,
        right(
            "The learning rate is too high",
            "The trouble comes while the rate is still *rising*: within ten steps the pretrained policy is worse than at the start, "
            "and it stays there. Compare the peak with the other runs': it is 20 times theirs.",
        ),
        wrong(
            "All of the data is wrong",
            "The same batches teach the other runs. And the held-out loss, of frames that are right, is no better at step 0 than theirs.",
        ),
        wrong(
            "The gradients vanished",
            "Their norm is small because nothing is to be learned at this rate. At the start it was as in the other runs.",
        ),
        wrong("A bit flipped in a weight", "That has a moment. This has a slope: it follows the rate up."),
    ),
}
