"""Lists of students as spreadsheets write them."""

import pytest

from autograder.nbgrader.students import NoStudents, as_nbgrader_reads_it

LIST = "id,first_name,last_name,email\nbob,Bob,Müller,bob@example.org\n"


@pytest.mark.parametrize(
    "raw",
    [
        LIST.encode(),
        LIST.encode("utf-8-sig"),
        LIST.replace(",", ";").encode("cp1252"),
        LIST.replace(",", "\t").encode("utf-16"),
        LIST.replace("\n", "\r\n").encode(),
        ("sep=;\n" + LIST.replace(",", ";")).encode("utf-8-sig"),
        "ID;First name;Surname;E-Mail;Group\r\n bob ;Bob;Müller;bob@example.org;3\r\n;;;;\r\n".encode("utf-8-sig"),
    ],
)
def test_it_is_read_whatever_wrote_it(raw):
    assert as_nbgrader_reads_it(raw) == LIST


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "no column is called `id` .found: nothing."),
        ("name,mail\nbob,b", "no column is called `id` .found: name, mail."),
        ("id,email\n,b@example.org", "line 2 has no id"),
        ("id\nbob\nbob", "more than one line has the id bob"),
    ],
)
def test_what_is_no_list_of_students_is_refused_in_a_sentence(text, says):
    with pytest.raises(NoStudents, match=says):
        as_nbgrader_reads_it(text.encode())
