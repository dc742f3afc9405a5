"""Runs a few statements with PyTorch and writes down the graph: nodes, what they saved, and what backward did."""

import ast
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from gpulab.compat.autograd import sequence_number

_ABBREVIATED = ("torch::autograd::", "Backward0", "Backward1", "Backward")


@dataclass
class Recording:
    """One run. ``plain()`` is what a page gets; ``alive`` and ``order`` are what PyTorch did, for tests.

    storages: name, bytes, whether it is a leaf's. statements: text, the name that it makes or writes to, its storage,
    that storage's version afterwards, its node, the names that are let go after it. nodes: name, number in the order
    in which they were made (None of one that ends a path), statement, next nodes, what it saved at which version,
    whose gradient it adds to. refused: PyTorch's error, in backward; raised: that of a statement. order: the nodes that
    backward visited. alive: after each statement, before each node of backward and at the end, the storages there were.
    """

    storages: list[dict] = field(default_factory=list)
    statements: list[dict] = field(default_factory=list)
    nodes: list[dict] = field(default_factory=list)
    raised: str = ""
    refused: str = ""
    order: list[int] = field(default_factory=list)
    alive: list[list[int]] = field(default_factory=list)

    def plain(self) -> dict:
        return {
            "storages": self.storages,
            "statements": self.statements,
            "nodes": self.nodes,
            "raised": self.raised,
            "refused": self.refused,
        }


def record(statements: Sequence[str], leaves: dict[str, torch.Tensor]) -> Recording:
    """Run ``statements`` on ``leaves``, then backward from what the last of them names.

    A statement assigns one new name, or is an in-place call on one. A name is let go after its last use, as in a
    function that returns. CPU tensors, and no view is written to.
    """
    return _Recorder(leaves).run(statements)


class _Recorder:
    def __init__(self, leaves: dict[str, torch.Tensor]) -> None:
        self.recording = Recording()
        self._first = sequence_number()
        self._names = dict(leaves)
        self._watched: list[weakref.ref] = []
        self._numbers: dict[int, int] = {}
        self._nodes: dict[tuple, int] = {}
        for name, tensor in leaves.items():
            self._storage(tensor, name, leaf=True)

    def run(self, statements: Sequence[str]) -> Recording:
        trees = [ast.parse(text).body[0] for text in statements]
        last = {name: position for position, tree in enumerate(trees) for name in _names_in(tree)}
        end = _written(trees[-1])
        for position, (text, tree) in enumerate(zip(statements, trees)):
            drops = [name for name, use in last.items() if use == position and name != end and not self._is_leaf(name)]
            if not self._statement(text, tree, drops):
                return self.recording
        self._backward(end)
        return self.recording

    def _is_leaf(self, name: str) -> bool:
        return name in self._names and self._names[name].is_leaf

    def _statement(self, text: str, tree: ast.stmt, drops: list[str]) -> bool:
        try:
            exec(text, {"torch": torch, "F": torch.nn.functional}, self._names)
        except RuntimeError as error:
            self.recording.raised = str(error)
            self.recording.statements.append({"text": text, "name": None, "drops": []})
            return False
        name = _written(tree)
        tensor = self._names[name]
        number, position = self._storage(tensor, name), len(self.recording.statements)
        self._walk(tensor.grad_fn, position)
        self.recording.statements.append(
            {
                "text": text,
                "name": name,
                "storage": number,
                "version": tensor._version,
                "node": None if tensor.grad_fn is None else self._nodes[_key(tensor.grad_fn)],
                "drops": drops,
            }
        )
        del tensor
        for dropped in drops:
            del self._names[dropped]
        self._look()
        return True

    def _storage(self, tensor: torch.Tensor, name: str, leaf: bool = False) -> int:
        storage = tensor.untyped_storage()
        known = self._numbers.get(storage._cdata)
        if known is not None and self._watched[known]() is not None:
            return known
        number = self._numbers[storage._cdata] = len(self._watched)
        self._watched.append(weakref.ref(storage))
        self.recording.storages.append(
            {"name": name, "bytes": storage.nbytes(), "leaf": leaf, "parameter": leaf and tensor.requires_grad}
        )
        return number

    def _walk(self, root: object, statement: int) -> None:
        """Every node behind ``root`` that is new, the ones before it first. None of them is held."""
        if root is None or _key(root) in self._nodes:
            return
        for before, _ in root.next_functions:
            self._walk(before, statement)
        self._nodes[_key(root)] = len(self._nodes)
        ends = hasattr(root, "variable")
        leaf = self._numbers[root.variable.untyped_storage()._cdata] if ends else None
        name = _short(root.name())
        self.recording.nodes.append(
            {
                "name": f"{self.recording.storages[leaf]['name']}.grad" if ends else name,
                "number": None if ends else root._sequence_nr() - self._first,
                "statement": statement,
                "next": [self._nodes[_key(before)] for before, _ in root.next_functions if before is not None],
                "saved": list(self._saved(root, name)),
                "gradient_of": leaf,
            }
        )

    def _saved(self, node: object, name: str):
        for attribute in dir(node):
            if not attribute.startswith("_raw_saved_"):
                continue
            what = attribute.removeprefix("_raw_saved_")
            tensor = getattr(node, f"_saved_{what}")
            if isinstance(tensor, torch.Tensor) and not _is_number(tensor):
                yield {"storage": self._storage(tensor, f"{what} of {name}"), "version": tensor._version, "what": what}

    def _look(self) -> None:
        self.recording.alive.append([number for number, seen in enumerate(self._watched) if seen() is not None])

    def _backward(self, end: str) -> None:
        self._listen(self._names[end].grad_fn, set())
        try:
            self._names[end].backward()
            self._look()
        except RuntimeError as error:
            self.recording.refused = str(error)

    def _listen(self, node: object, met: set[tuple]) -> None:
        if node is None or _key(node) in met:
            return
        met.add(_key(node))
        node.register_prehook(self._before(self._nodes[_key(node)]))
        for before, _ in node.next_functions:
            self._listen(before, met)

    def _before(self, number: int) -> Callable:
        def visit(*_):
            self.recording.order.append(number)
            self._look()

        return visit


def _key(node: object) -> tuple:
    """Names a node: by its leaf, or by its number, which no other node has."""
    return (
        ("end", node.variable.untyped_storage()._cdata) if hasattr(node, "variable") else ("node", node._sequence_nr())
    )


def _is_number(tensor: torch.Tensor) -> bool:
    """A Python number that autograd keeps as a tensor: no memory that anyone would miss."""
    return tensor.ndim == 0 and tensor.dtype in (torch.int64, torch.float64)


def _names_in(tree: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {"torch", "F"}


def _written(tree: ast.stmt) -> str:
    """The name that a statement assigns or writes to in place."""
    return tree.targets[0].id if isinstance(tree, ast.Assign) else tree.value.func.value.id


def _short(name: str) -> str:
    for part in _ABBREVIATED:
        name = name.replace(part, "")
    return name
