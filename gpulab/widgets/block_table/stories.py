"""The stories that are told: a fork with copy-on-write, and prompts that begin alike."""

from gpulab.widgets.block_table.moves import Event, Story

FORK = Story(
    "forks: several answers to one prompt", total=9, size=4, keeps=False, sequences="ABCD",
    events=(
        Event("The cache is empty: 9 blocks with room for 4 tokens each."),
        Event(
            "The prompt of A has 10 tokens. A takes three blocks; two places of the last stay empty.",
            (("take", "A", 0), ("take", "A", 1), ("take", "A", 2), ("fill", "A", 10)),
        ),
        Event("A appends a token. Its last block has room, and nobody else reads it: nothing is taken.", (("fill", "A", 1),)),
        Event(
            "B forks from A. The table of B names the same blocks, and each of them counts two. No token is copied.",
            (("share", "B", (0, 1, 2), 11),),
        ),
        Event(
            "B appends a token. Block 2 is partly full, and A reads it too: its 3 tokens are copied into block 3 before B "
            "writes there. Block 2 is A's alone again.",
            (("copy", "B", 2, 3), ("fill", "B", 1)),
        ),
        Event("A appends a token. Block 2 has one owner: A writes in place, nothing is copied.", (("fill", "A", 1),)),
        Event("A appends a token. Block 2 is full: A takes block 4.", (("take", "A", 4), ("fill", "A", 1))),
        Event("C forks from B, whose last block is full.", (("share", "C", (0, 1, 3), 12),)),
        Event(
            "C appends a token. Nobody ever writes into a full block again: C takes block 5, and nothing is copied.",
            (("take", "C", 5), ("fill", "C", 1)),
        ),
        Event("A is aborted. Blocks 2 and 4 were its own and are free. Blocks 0 and 1 lose an owner and stay.", (("drop", "A"),)),
        Event(
            "The prompt of D has 7 tokens. What is free is used again; a table need not be in order.",
            (("take", "D", 4), ("take", "D", 2), ("fill", "D", 7)),
        ),
        Event("B appends a token. Its last block is full, shared or not: B takes block 6.", (("take", "B", 6), ("fill", "B", 1))),
        Event("B is done. Block 6 is free, and of blocks 0, 1 and 3 C is the last owner.", (("drop", "B"),)),
        Event("C and D are done. All 9 blocks are free: one less would be a leak.", (("drop", "C"), ("drop", "D"))),
    ),
)  # fmt: skip

PREFIX = Story(
    "prefix hits: prompts that begin alike", total=8, size=4, keeps=True, sequences="ABCDE",
    events=(
        Event("The cache is empty: 8 blocks of 4 tokens. A full block will be known by its tokens and by all tokens before it."),
        Event(
            "The prompt of A has 10 tokens: 8 of a system prompt, 2 of a question. All are computed. Blocks 0 and 1 are full: "
            "from now on they can be found.",
            (("take", "A", 0), ("take", "A", 1), ("take", "A", 2), ("fill", "A", 10)),
        ),
        Event(
            "The prompt of B has 11 tokens and the same beginning: a hit. Blocks 0 and 1 count two, and 3 tokens are computed, "
            "not 11.",
            (("share", "B", (0, 1), 8), ("take", "B", 3), ("fill", "B", 3)),
        ),
        Event("A appends two tokens. Block 2 is full: it can be found too, by these 12 tokens.", (("fill", "A", 2),)),
        Event("A appends a token, in a block of its own.", (("take", "A", 4), ("fill", "A", 1))),
        Event(
            "A is done. Block 4 is not full, nobody could find it: it is free. Block 2 has no owner, and stays findable until "
            "its room is needed.",
            (("drop", "A"),),
        ),
        Event(
            "The prompt of C has 14 tokens and begins with A's first 12: the next turn of a chat. Three blocks are found, block "
            "2 among them, and 2 tokens are computed.",
            (("share", "C", (0, 1, 2), 12), ("take", "C", 4), ("fill", "C", 2)),
        ),
        Event("B is aborted. Block 3 was its own and not full: it is free.", (("drop", "B"),)),
        Event("C is done. Nobody is here, and three blocks can still be found.", (("drop", "C"),)),
        Event(
            "The prompt of D has 18 other tokens: no hit. Free blocks go first, so nothing is forgotten yet.",
            (("take", "D", 5), ("take", "D", 6), ("take", "D", 7), ("take", "D", 3), ("take", "D", 4), ("fill", "D", 18)),
        ),
        Event(
            "D appends three tokens and needs a block; none is free. Block 2 is evicted, the last of its chain: without it "
            "blocks 0 and 1 can still be found, without block 0 neither of the others.",
            (("take", "D", 2), ("fill", "D", 3)),
        ),
        Event("D is done. Block 2 holds one token of D and is free; its five full blocks can be found.", (("drop", "D"),)),
        Event(
            "The prompt of E has 13 tokens and begins with A's first 12. 8 are found, 5 computed: block 2 holds A's no more. "
            "After it nothing is free, so the last of D's chain goes, block 4.",
            (("share", "E", (0, 1), 8), ("take", "E", 2), ("take", "E", 4), ("fill", "E", 5)),
        ),
        Event("E is done. Nobody holds a block: each is free or can be found.", (("drop", "E"),)),
    ),
)  # fmt: skip

STORIES = {"fork": FORK, "prefix": PREFIX}
