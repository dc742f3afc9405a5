"""What counts as a clause of a statement, and when it is quoted."""

import nbformat

from autograder.authoring.clauses import clauses, is_quoted, plain, statement, unquoted

TEXT = """## E9.9 `double`

How often is it read? Write `double(x)`:

- `x`: a tensor, **any dtype**, which may
  be empty; it is not changed;
- returns `2 * x` in *new* storage. No copy is made.
"""


def texts(text: str) -> list[str]:
    return [clause.text for clause in clauses(text)]


def test_each_sentence_or_part_of_an_item_is_a_clause():
    assert texts(TEXT) == [
        "`x`: a tensor, any dtype, which may be empty;",
        "it is not changed;",
        "returns `2 * x` in new storage.",
        "No copy is made.",
    ]


def test_text_outside_the_lists_is_no_clause():
    assert texts("Write `double(x)`. It is short; it returns.") == []


def test_emphasis_goes_and_products_stay():
    assert (
        plain("**any** *strides*,\n `2 * x * y` and `patch * patch`") == "any strides, `2 * x * y` and `patch * patch`"
    )


def test_a_quotation_covers_the_clauses_that_it_touches():
    left = unquoted(TEXT, ["is not changed", "new storage. No"])
    assert left == ["`x`: a tensor, any dtype, which may be empty;"]
    assert unquoted(TEXT, [TEXT]) == []
    assert len(unquoted(TEXT, [])) == 4


def test_words_that_are_not_there_are_no_quotation():
    assert is_quoted(TEXT, "which may be\nempty")
    assert not is_quoted(TEXT, "which can be empty")
    assert not is_quoted(TEXT, "")


def test_a_statement_begins_after_the_solution_before_it():
    cell = nbformat.v4.new_code_cell
    cells = [
        nbformat.v4.new_markdown_cell("first"),
        cell("def a(): ...", metadata={"nbgrader": {"grade_id": "a", "solution": True}}),
    ]
    cells += [nbformat.v4.new_markdown_cell("second"), cell("helper = 1"), nbformat.v4.new_markdown_cell("third")]
    cells += [cell("def b(): ...", metadata={"nbgrader": {"grade_id": "b", "solution": True}})]
    notebook = nbformat.v4.new_notebook(cells=cells)
    assert statement(notebook, "a") == "first"
    assert statement(notebook, "b") == "second\n\nthird"
