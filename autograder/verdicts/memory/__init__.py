"""Chapter "Memory": its exercises, in order."""

from autograder.verdicts.memory.activation_bytes import activation_bytes as activation_bytes
from autograder.verdicts.memory.fits import fits as fits
from autograder.verdicts.memory.lora_memory import lora_memory as lora_memory
from autograder.verdicts.memory.state_bytes import state_bytes as state_bytes
