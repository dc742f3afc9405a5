"""Chapter "Collectives and interconnects": its exercises, in order."""

from autograder.verdicts.collectives.choose_algorithm import choose_algorithm as choose_algorithm
from autograder.verdicts.collectives.collective_time import collective_time as collective_time
from autograder.verdicts.collectives.place_groups import place_groups as place_groups
from autograder.verdicts.collectives.ring_all_reduce import ring_all_reduce as ring_all_reduce
