"""The reaching world: an arm of two joints, four objects, an instruction, and an expert that obeys it.

``Worlds`` holds n independent worlds as arrays. Lengths are pixels of the 64x64 camera, x to the right, y down.
Every random choice comes from the generator that is handed in.
"""

import numpy as np

from gpulab.model.camera import COLOURS, SHAPES, draw

TEMPLATES = ("move to the", "reach for the", "go to the")
TRAINED_COLOURS = 4
"""So many colours of ``COLOURS`` are seen in training; the rest are kept for fine-tuning."""
WORDS = ("<bos>", *dict.fromkeys(" ".join(TEMPLATES).split()), *COLOURS, *SHAPES)
_ID = {word: number for number, word in enumerate(WORDS)}

BASE, LINK = np.array([32.0, 62.0]), 30.0
"""The shoulder, and the length of both links."""
NEAREST, FARTHEST = np.array([8.0, 8.0]), np.array([56.0, 48.0])
"""Corners of the rectangle that holds objects and the tip."""
SQUARES = np.array([(x, y) for y in (8.0, 24.0, 40.0) for x in (8.0, 24.0, 40.0, 56.0)])
"""Middles of the squares that objects lie on: 16 apart, so no place is near two objects."""
WOBBLE = 2.0
"""How far from the middle of its square an object lies at most, in x and in y."""
BINS, BIN_PIXELS = 17, 0.5
"""An action is (dx, dy), each one of so many bins; the middle one is no move."""
_STILL = BINS // 2


def tip_of(joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Elbow and tip, each (n, 2), of joint angles (n, 2) in radians; the second is counted from the first link."""
    upper, lower = joints[:, 0], joints[:, 0] + joints[:, 1]
    elbow = BASE + LINK * np.stack([np.cos(upper), -np.sin(upper)], 1)
    return elbow, elbow + LINK * np.stack([np.cos(lower), -np.sin(lower)], 1)


def joints_for(tip: np.ndarray) -> np.ndarray:
    """The joint angles that bring the tip there, the elbow always on the same side."""
    way = tip - BASE
    distance = np.clip(np.hypot(way[:, 0], way[:, 1]), 1.0, 2 * LINK - 1e-3)
    bend = np.arccos(distance / (2 * LINK))
    return np.stack([np.arctan2(-way[:, 1], way[:, 0]) + bend, -2 * bend], 1)


class Worlds:
    """n worlds with two colours times two shapes each: the instruction needs both words, the picture tells none.

    ``colours``: the numbers of ``COLOURS`` to choose from. ``always``: one that is in every world and in every
    instruction. ``fewer``: a third of the worlds show the named object alone and a third about half of the others,
    an easier start for learning.
    """

    def __init__(
        self,
        n: int,
        rng: np.random.Generator,
        colours: tuple[int, ...] = tuple(range(TRAINED_COLOURS)),
        always: int | None = None,
        fewer: bool = False,
    ) -> None:
        self.n, self._rows = n, np.arange(n)
        two, shapes = _two_of(rng, n, colours), _two_of(rng, n, tuple(range(len(SHAPES))))
        if always is not None:
            two = np.stack([np.full(n, always), _two_of(rng, n, tuple(c for c in colours if c != always))[:, 0]], 1)
        self.colour, self.shape = two[:, [0, 0, 1, 1]], shapes[:, [0, 1, 0, 1]]
        squares = np.argsort(rng.random((n, len(SQUARES))), 1)[:, :4]
        self.place = SQUARES[squares] + rng.uniform(-WOBBLE, WOBBLE, (n, 4, 2))
        self.target = rng.integers(4 if always is None else 2, size=n)
        shown = rng.choice([0.0, 0.5, 1.0], (n, 1)) if fewer else np.ones((n, 1))
        self.seen = rng.random((n, 4)) < shown
        self.seen[self._rows, self.target] = True
        self.template = rng.integers(len(TEMPLATES), size=n)
        self.joints = joints_for(rng.uniform(NEAREST, FARTHEST, (n, 2)))

    def camera(self) -> np.ndarray:
        """RGB images (n, 64, 64, 3), uint8."""
        elbow, tip = tip_of(self.joints)
        return draw(self.colour, self.shape, self.seen, self.place, (np.broadcast_to(BASE, tip.shape), elbow, tip))

    def text(self, target: np.ndarray | None = None) -> np.ndarray:
        """Word ids (n, 6) of the instructions. ``target``: of each world the object to name, by default its own."""
        target = self.target if target is None else target
        templates = np.array([[_ID[word] for word in ("<bos>", *template.split())] for template in TEMPLATES])
        colour = _ID[next(iter(COLOURS))] + self.colour[self._rows, target]
        shape = _ID[SHAPES[0]] + self.shape[self._rows, target]
        return np.concatenate([templates[self.template], colour[:, None], shape[:, None]], 1)

    def say(self, i: int) -> str:
        """The instruction of world i in words."""
        return " ".join(WORDS[word] for word in self.text()[i, 1:])

    def goal(self) -> np.ndarray:
        """Where the named objects are, (n, 2)."""
        return self.place[self._rows, self.target]

    def expert(self) -> np.ndarray:
        """The best bins (n, 2): straight to the named object, as far as a step goes."""
        way = (self.goal() - tip_of(self.joints)[1]) / BIN_PIXELS
        return np.clip(np.rint(way), -_STILL, _STILL).astype(int) + _STILL

    def step(self, bins: np.ndarray) -> None:
        """Move every tip by its bins (n, 2), each 0 to 16. Raises ValueError for others."""
        if bins.shape != (self.n, 2) or bins.min() < 0 or bins.max() >= BINS:
            raise ValueError(f"an action is two bins from 0 to {BINS - 1} for each of {self.n} worlds")
        tip = tip_of(self.joints)[1] + (bins - _STILL) * BIN_PIXELS
        self.joints = joints_for(np.clip(tip, NEAREST - 4, FARTHEST + 4))

    def distance(self) -> np.ndarray:
        """Pixels from each tip to its named object, (n,)."""
        return np.linalg.norm(tip_of(self.joints)[1] - self.goal(), axis=1)


def _two_of(rng: np.random.Generator, n: int, options: tuple[int, ...]) -> np.ndarray:
    """Two different options for each world, (n, 2)."""
    return np.array(options)[np.argsort(rng.random((n, len(options))), 1)[:, :2]]


def frames(n: int, rng: np.random.Generator, near: float = 0.5, **options) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n frames to learn from: images, word ids, and the bins that the expert chooses.

    The arm is anywhere; in a share ``near`` of the frames it is close to one of the four objects, named or not:
    what a policy must know to arrive, and to leave a wrong one again. ``options``: of ``Worlds``.
    """
    worlds = Worlds(n, rng, **options)
    close = worlds.place[np.arange(n), rng.integers(4, size=n)] + rng.normal(0, 3, (n, 2))
    worlds.joints = joints_for(np.where(rng.random((n, 1)) < near, close, tip_of(worlds.joints)[1]))
    return worlds.camera(), worlds.text(), worlds.expert()
