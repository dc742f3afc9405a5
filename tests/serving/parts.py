"""Small parts for tests, and parts that break a rule."""

from gpulab.serving import Paged, Plan, Request


class Flat:
    """A millisecond a step and 10 us a token."""

    def step_us(self, work):
        return 1000.0 + 10 * sum(new for new, _ in work)


def asks(name, prompt=4, most=3, at=0.0, **others):
    return Request(name, at, prompt, most, **others)


class Greedy:
    """Everybody gets all that is left, if there is room. Subclasses spoil the plan."""

    def plan(self, waiting, running, blocks, budget):
        plan = Plan()
        for live in [*running, *waiting]:
            if blocks.reserve(live, live.left):
                plan.tokens[live] = live.left
        return self.spoil(plan, waiting, running, blocks, budget) or plan

    def spoil(self, plan, waiting, running, blocks, budget):
        return None


class Leaky(Paged):
    """Forgets a block of everyone who goes."""

    def release(self, live):
        had = bool(self.table(live))
        super().release(live)
        if had:
            self._free.pop()


class Twice(Paged):
    """Gives a block to whoever asks, and keeps it in the list of free ones."""

    def reserve(self, live, tokens):
        before = len(self._free)
        done = super().reserve(live, tokens)
        if len(self._free) < before:
            self._free.append(self._tables[live][-1])
        return done


class Shared(Paged):
    """Everyone's first block is block 0; another one is lost, so that the numbers agree."""

    def reserve(self, live, tokens):
        new = live not in self._tables
        done = super().reserve(live, tokens)
        if done and new:
            self._tables[live][0] = 0
        return done


class Prefixes(Paged):
    """Full blocks of tokens are found again while someone holds them, and after that until they are given to another."""

    shares = True

    def __init__(self, total, size):
        super().__init__(total, size)
        self._of, self._name, self._users = {}, {}, [0] * total

    def found(self, live):
        self._publish()
        return self.size * len(self._chain(live, live.tokens - 1))

    def reserve(self, live, tokens):
        begun = self._tables.get(live) or self._chain(live, live.computed)
        mine = [] if live in self._tables else begun
        idle = [block for block in mine if not self._users[block]]
        more = -(-(live.computed + tokens) // self.size) - len(begun)
        if self.size * len(begun) < live.computed or more > len(self._free) - len(idle):
            return False
        for block in idle:
            self._free.remove(block)
        new = [self._free.pop(0) for _ in range(more)]
        for block in new:
            self._of.pop(self._name.pop(block, None), None)
        for block in [*mine, *new]:
            self._users[block] += 1
        self._tables[live] = [*begun, *new]
        return True

    def release(self, live):
        self._publish()
        for block in self._tables.pop(live, []):
            self._users[block] -= 1
            if not self._users[block]:
                self._free.append(block)

    def _publish(self):
        """What is computed, not what is reserved."""
        for live, table in self._tables.items():
            for number in range(live.computed // self.size):
                start, block = live.ids[: (number + 1) * self.size], table[number]
                if start not in self._of and block not in self._name:
                    self._of[start], self._name[block] = block, start

    def _chain(self, live, upto):
        """The blocks, from the first on, that hold the first ``upto`` tokens of ``live``, as far as there are any."""
        found = []
        for end in range(self.size, upto + 1, self.size):
            if (block := self._of.get(live.ids[:end])) is None:
                break
            found.append(block)
        return found


class CopiesOnWrite(Prefixes):
    """Leaves no more than the last token to compute; if that falls into a full block, then into a copy of it."""

    def __init__(self, total, size):
        super().__init__(total, size)
        self.expected, self.done = [], 0

    def found(self, live):
        self._publish()
        return min(self.size * len(self._chain(live, live.tokens)), live.tokens - 1)

    def reserve(self, live, tokens):
        if live in self._tables or not live.computed % self.size:
            return super().reserve(live, tokens)
        chain = self._chain(live, live.computed + 1)
        idle = [block for block in chain if not self._users[block]]
        free = [block for block in self._free if block not in idle]
        if self.size * len(chain) <= live.computed or not free:
            return False
        for block in chain:
            self._users[block] += 1
        self._free, self._tables[live] = free, chain
        source, target = chain[-1], self._free.pop(0)
        self._of.pop(self._name.pop(target, None), None)
        self._users[target], chain[-1] = 1, target
        self._users[source] -= 1
        if not self._users[source]:
            self._free.append(source)
        self.expected.append((source, target))
        return True

    def copies(self):
        expected, self.expected = self.expected, []
        self.done += len(expected)
        return expected


class Keeps(Paged):
    """Releases nothing."""

    def release(self, live):
        pass
