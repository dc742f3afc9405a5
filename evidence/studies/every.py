"""All studies, in the order in which they are run: the first times the first product of the process."""

from evidence.studies import Study, accuracy, arithmetic, host, moving, process, profiles, refusals, serving, training

STUDIES: dict[str, Study] = {
    **host.STUDIES,
    **arithmetic.STUDIES,
    **training.STUDIES,
    **serving.STUDIES,
    **moving.STUDIES,
    **profiles.STUDIES,
    **refusals.STUDIES,
    **accuracy.STUDIES,
    **process.STUDIES,
}
