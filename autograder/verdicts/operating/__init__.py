"""Chapter "Operating at scale: observability, failures, cost": its exercises, in order."""

from autograder.verdicts.operating.chargeback import chargeback as chargeback
from autograder.verdicts.operating.checkpoint_interval import checkpoint_interval as checkpoint_interval
from autograder.verdicts.operating.find_straggler import find_straggler as find_straggler
from autograder.verdicts.operating.gang_schedule import gang_schedule as gang_schedule
