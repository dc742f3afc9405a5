"""PyTorch's private names and Triton's internals stand in gpulab/compat, and nowhere else.

Held to it are gpulab, autograder, evidence and what exercises run and judge with. Tests may name what they test, and
notebooks what a learner would write.
"""

from pathlib import Path

import pytest

from tests.project.private_names import private_names

ROOT = Path(__file__).parents[2]
FILES = [
    path
    for tree in ("gpulab", "autograder", "evidence", "exercises")
    for path in sorted((ROOT / tree).rglob("*.py"))
    if not path.is_relative_to(ROOT / "gpulab" / "compat") and path.name != "notebook.py"
]


def test_private_names_of_pytorch_and_triton_stand_in_compat_alone():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}" for path in FILES for line, name in private_names(path.read_text())
    ]
    assert FILES and not found, "\n".join(["gpulab.compat is to hold what these lines use:", *found])


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("\nimport torch._dynamo", "torch._dynamo"),
        ("\nimport torch.utils._pytree as tree", "torch.utils._pytree"),
        ("\nfrom torch import _C", "torch._C"),
        ("def f():\n    from torch._ops import OpOverload", "torch._ops.OpOverload"),
        ("import torch\nx = torch._C", "torch._C"),
        ("import torch as t\nt.cuda._lazy_init()", "torch.cuda._lazy_init"),
        ("import torch.nn\ntorch.utils._pytree.tree_map(f, y)", "torch.utils._pytree.tree_map"),
        ("from torch import _C as core\ncore.x", "torch._C.x"),
        ("import torch; Tensor = torch.Tensor\nTensor._make_subclass(A, b)", "torch.Tensor._make_subclass"),
        ("import torch\nx = torch._C._names()[0].y", "torch._C._names"),
        ("\nfrom triton.runtime import interpreter", "triton.runtime.interpreter"),
        ("import triton.language as tl\ntl.core.tensor", "triton.language.core.tensor"),
        ("from gpulab.compat import dispatch\ndispatch.modes._pop", "gpulab.compat.dispatch.modes._pop"),
    ],
)
def test_a_private_name_is_found_on_its_line(source, name):
    assert (2, name) in private_names(source)


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.Tensor.__add__",
        "import torch\ntorch.cuda.memory._snapshot()",
        "import torch\ntorch.ops._c10d_functional.wait_tensor",
        "import torch\ntorch.add(a, b)._version",
        "import triton.language as tl\ntl.load",
        "from triton.tools.tensor_descriptor import TensorDescriptor",
        "from gpulab.cuda import _x",
    ],
)
def test_names_that_users_write_and_attributes_of_objects_are_none(source):
    assert not list(private_names(source))
