"""The camera of the reaching world: 64x64 RGB, drawn in NumPy for many worlds at once, edges smoothed over a pixel."""

import numpy as np

SIZE = 64
COLOURS = {
    "red": (214, 40, 40),
    "green": (48, 160, 70),
    "blue": (40, 90, 220),
    "yellow": (240, 200, 30),
    "purple": (140, 60, 190),
    "orange": (245, 130, 30),
}
SHAPES = ("block", "ring", "cross")
BACKGROUND = 232
"""Grey of what is neither object nor arm."""
_ARM, _TIP, _TIP_MIDDLE = 90, 20, 255
_WINDOW = 16
"""Pixels of the square in which an object or the tip is drawn."""
_PALETTE = np.array(list(COLOURS.values()), np.float32)


def draw(colour: np.ndarray, shape: np.ndarray, seen: np.ndarray, place: np.ndarray, arm: tuple) -> np.ndarray:
    """Images (n, 64, 64, 3), uint8. Objects: (n, 4), their places (n, 4, 2). arm: base, elbow and tip, each (n, 2)."""
    image = np.full((len(colour), SIZE, SIZE, 3), BACKGROUND, np.float32)
    for k in range(colour.shape[1]):
        dx, dy, where = _window(place[:, k])
        edge = np.where(seen[:, k, None, None], _outline(shape[:, k, None, None], dx, dy), 1.0)
        _paint(image, where, edge, _PALETTE[colour[:, k]][:, None, None])
    base, elbow, tip = arm
    for a, b in ((base, elbow), (elbow, tip)):
        _paint(image, slice(None), _from_segment(a, b) - 1.0, np.float32(_ARM))
    dx, dy, where = _window(tip)
    for radius, grey in ((3.0, _TIP), (1.5, _TIP_MIDDLE)):
        _paint(image, where, np.hypot(dx, dy) - radius, np.float32(grey))
    return image.astype(np.uint8)


def _outline(shape: np.ndarray, dx: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Distance to the edge of each object, in pixels, negative inside."""
    ax, ay = abs(dx), abs(dy)
    block = np.maximum(ax, ay) - 5.0
    ring = abs(np.hypot(dx, dy) - 4.5) - 1.5
    cross = np.minimum(np.maximum(ax - 6.0, ay - 1.5), np.maximum(ay - 6.0, ax - 1.5))
    return np.choose(shape, (block, ring, cross))


def _window(centre: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple]:
    """Offsets from each centre (n, 2) to the pixels around it, (n, 1, 16) and (n, 16, 1), and where these pixels are."""
    corner = np.clip(np.floor(centre).astype(int) - _WINDOW // 2, 0, SIZE - _WINDOW)
    x, y = (corner[:, axis, None] + np.arange(_WINDOW) for axis in (0, 1))
    dx = (x + 0.5 - centre[:, 0, None]).astype(np.float32)[:, None, :]
    dy = (y + 0.5 - centre[:, 1, None]).astype(np.float32)[:, :, None]
    return dx, dy, (np.arange(len(centre))[:, None, None], y[:, :, None], x[:, None, :])


def _from_segment(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distance of every pixel to the segments from a to b, each (n, 2): (n, 64, 64)."""
    a, d = a.astype(np.float32), (b - a).astype(np.float32)
    axis = np.arange(SIZE, dtype=np.float32) + 0.5
    x, y = axis[None, None, :] - a[:, 0, None, None], axis[None, :, None] - a[:, 1, None, None]
    dx, dy = d[:, 0, None, None], d[:, 1, None, None]
    along = np.clip((x * dx + y * dy) / (dx * dx + dy * dy), 0, 1)
    return np.hypot(x - along * dx, y - along * dy)


def _paint(image: np.ndarray, where, edge: np.ndarray, colour: np.ndarray) -> None:
    cover = np.clip(0.5 - edge, 0, 1)[..., None]
    image[where] += cover * (colour - image[where])
