"""Chapter "Staying alive: stability, schedules, checkpoints": its exercises, in order."""

from autograder.verdicts.stability.clip_global import clip_global as clip_global
from autograder.verdicts.stability.lr_at import lr_at as lr_at
from autograder.verdicts.stability.save_state import save_state as save_state
from autograder.verdicts.stability.spike_guard import spike_guard as spike_guard
