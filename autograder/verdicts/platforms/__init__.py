"""Chapter "Platforms: serverless, tenancy, compliance": its exercises, in order."""

from autograder.verdicts.platforms.audit_network import audit_network as audit_network
from autograder.verdicts.platforms.cold_start import cold_start as cold_start
from autograder.verdicts.platforms.mig_pack import mig_pack as mig_pack
from autograder.verdicts.platforms.warm_pool import warm_pool as warm_pool
