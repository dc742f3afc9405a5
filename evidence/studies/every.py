"""All studies, in the order in which they are run: the first times the first product of the process."""

from evidence.studies import Study, arithmetic, host, moving, profiles, serving, training

STUDIES: dict[str, Study] = {
    **host.STUDIES,
    **arithmetic.STUDIES,
    **training.STUDIES,
    **serving.STUDIES,
    **moving.STUDIES,
    **profiles.STUDIES,
}
