"""Triton's interpreter: what runs a kernel's operations on NumPy arrays, and how its language is turned to it."""

from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder as InterpreterBuilder
from triton.runtime.interpreter import ReduceOps as ReduceOps
from triton.runtime.interpreter import ScanOps as ScanOps
from triton.runtime.interpreter import TensorHandle as TensorHandle

from gpulab.compat.places import Place

BUILDER = Place(interpreter, "interpreter_builder")
SEMANTIC = Place(interpreter, "interpreter_semantic")
LanguageScope = interpreter._LangPatchScope
"""Attributes that are replaced for a launch: ``set_attr(owner, name, value)``, ``restore()``."""
patch_builtins = interpreter._patch_builtin
patch_tensor = interpreter._patch_lang_tensor
patch_language = interpreter._patch_lang_core
numpy_dtype = interpreter._get_np_dtype
memory = interpreter._interpreter
"""``load`` and ``store`` by address."""
enums = interpreter._ir
"""``MEM_SEMANTIC`` and others that operations take."""
