"""The clauses of a statement, by their tags."""

import nbformat

from autograder.authoring.clauses import read_statement, statement, without_tags

TEXT = """## E9.9 `double`

How often is it read? Write `double(x)`:

- [c1] `x`: a tensor, **any dtype**, which may
  be empty; [c2] it is not changed;
- [c3] returns `2 * x` in *new* storage, `x[c]` too. [c4] No copy is made.

Not a clause [c5] at all.
"""


def test_a_clause_is_what_follows_a_tag_in_a_list():
    assert read_statement(TEXT).clauses == {
        "c1": "`x`: a tensor, **any dtype**, which may be empty;",
        "c2": "it is not changed;",
        "c3": "returns `2 * x` in *new* storage, `x[c]` too.",
        "c4": "No copy is made.",
    }
    assert read_statement(TEXT).untagged == read_statement(TEXT).repeated == ()


def test_an_item_that_begins_without_a_tag_and_a_tag_that_stands_twice_are_found():
    found = read_statement(TEXT.replace("- [c1] ", "- ").replace("[c4]", "[c3]"))
    assert found.untagged == ("`x`: a tensor, **any dtype**, which may be empty;",) and found.repeated == ("c3",)


def test_learners_read_no_tag():
    assert (
        "[c1]" not in without_tags(TEXT) and "- `x`: a tensor" in without_tags(TEXT) and "`x[c]`" in without_tags(TEXT)
    )


def test_a_statement_begins_after_the_solution_before_it():
    cell = nbformat.v4.new_code_cell
    solution = lambda name: cell(f"def {name}(): ...", metadata={"nbgrader": {"grade_id": name, "solution": True}})
    text = lambda words: nbformat.v4.new_markdown_cell(words)
    cells = [
        text("- [c1] first"),
        solution("a"),
        text("- [c1] second"),
        cell("helper = 1"),
        text("- [c2] third"),
        solution("b"),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    assert statement(notebook, "a").clauses == {"c1": "first"}
    assert statement(notebook, "b").clauses == {"c1": "second", "c2": "third"}
