/* Views worth seeing: how each is written, and what to look at. */
export const PRESETS = [
  { name: "contiguous", size: [2, 3], stride: [3, 1], offset: 0, cells: 6,
    note: "Rows lie one after the other: the last stride is 1, each other stride is the size times the stride to its right." },
  { name: "t()", size: [3, 2], stride: [1, 3], offset: 0, cells: 6,
    note: "`t()` swaps sizes and strides. The storage is the same, and no byte moves." },
  { name: "[:, ::2]", size: [3, 2], stride: [4, 2], offset: 0, cells: 12,
    note: "A step multiplies the stride. Not contiguous, yet `view(6)` works: 4 = 2 · 2." },
  { name: "[1:]", size: [2, 4], stride: [4, 1], offset: 4, cells: 12,
    note: "A slice of rows moves the offset. It is contiguous, and it keeps all 12 cells of the storage alive." },
  { name: "expand", size: [3, 4], stride: [1, 0], offset: 0, cells: 3,
    note: "`expand` gives the new dimension stride 0: 12 elements, 3 cells." },
  { name: "unfold", size: [3, 4], stride: [2, 1], offset: 0, cells: 8,
    note: "`unfold(0, 4, 2)`: windows of 4, each 2 cells after the last. Neighbours overlap." },
  { name: "patches", size: [2, 2, 2, 2], stride: [8, 2, 4, 1], offset: 0, cells: 16,
    note: "A 4×4 image as 2×2 patches of 2×2: indices are (patch row, patch column, row, column). Cutting patches is a view." },
  { name: "channels_last", size: [1, 3, 2, 4], stride: [24, 1, 12, 3], offset: 0, cells: 24,
    note: "The shape stays NCHW, the channel has stride 1. `is_contiguous()` is False, and nothing is wrong with it." },
];
