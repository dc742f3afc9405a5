"""The stride explorer in a browser with no kernel: by pointer, by keyboard, on a phone."""

import pytest

from gpulab.widgets import StrideExplorer


def call(page):
    return page.locator(".call").first.inner_text()


def slider(page, name):
    return page.get_by_role("slider", name=name, exact=True)


def test_sliders_move_the_view_by_keyboard(mount):
    page = mount(StrideExplorer())
    slider(page, "stride of dimension 0").focus()
    page.keyboard.press("ArrowLeft")
    assert call(page) == "x = torch.as_strided(torch.arange(6), (2, 3), (2, 1), 0)"
    assert "6 elements share 5 cells" in page.locator("dl").inner_text()
    assert page.evaluate("model.get('stride')") == [2, 1]


def test_steppers_move_by_one(mount):
    page = mount(StrideExplorer())
    page.get_by_role("button", name="decrease size of dimension 1").click()
    assert page.evaluate("model.get('shape')") == [2, 2]


def test_focusing_an_element_shows_its_address_and_its_cell(mount):
    page = mount(StrideExplorer((3, 2), (1, 3)))
    page.get_by_role("button", name="x[0, 0], storage index 0").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.locator(".formula").inner_text() == "x[1, 1]: 0 + 1·1 + 1·3 = 4 → storage[4]"
    assert page.locator(".slot.chosen").get_attribute("data-at") == "4"


def test_hovering_an_element_marks_the_others_in_its_cell(mount):
    page = mount(StrideExplorer((3, 4), (1, 0)))
    page.get_by_role("button", name="x[1, 2], storage index 1").hover()
    assert page.locator(".cell.twin").count() == 3
    assert page.locator(".slot.chosen .many").inner_text() == "×4"


def test_dragging_a_stride_tag_to_another_cell_sets_the_stride(mount):
    page = mount(StrideExplorer((2, 3), storage=8))
    page.locator(".tag[data-handle='0']").hover()
    page.mouse.down()
    page.locator(".slot[data-at='5']").hover()
    page.mouse.up()
    assert page.evaluate("model.get('stride')") == [5, 1]


def test_dragging_the_offset_tag_sets_the_offset(mount):
    page = mount(StrideExplorer((2, 2), storage=8))
    page.locator(".tag[data-handle='offset']").hover()
    page.mouse.down()
    page.locator(".slot[data-at='3']").hover()
    page.mouse.up()
    assert page.evaluate("model.get('offset')") == 3


def test_dragging_the_corner_sets_the_last_two_sizes(mount):
    page = mount(StrideExplorer((2, 3), storage=30))
    box = page.locator(".corner").bounding_box()
    cell = page.locator(".elements .cell").first.bounding_box()
    x, y = box["x"] + 8, box["y"] + 8
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 2 * (cell["width"] + 4), y + cell["height"] + 4, steps=6)
    page.mouse.up()
    assert page.evaluate("model.get('shape')") == [3, 5]


def test_a_view_that_leaves_the_storage_shows_torchs_error(mount):
    page = mount(StrideExplorer((3, 3), (3, 1), 1, storage=6))
    with pytest.raises(RuntimeError) as error:
        StrideExplorer((3, 3), (3, 1), 1, storage=6).tensor()
    assert page.locator(".error").inner_text() == f"RuntimeError: {error.value}".strip()
    assert page.locator(".elements .ghost").count() == 4
    assert not page.locator("dl").is_visible()


def test_a_tensor_with_no_elements_has_a_picture(mount):
    page = mount(StrideExplorer((0, 3)))
    assert "No elements: the shape is (0, 3)." in page.locator(".elements").inner_text()
    assert "True" in page.locator("dl").inner_text()


def test_presets_show_channels_last(mount):
    page = mount(StrideExplorer())
    page.get_by_role("button", name="channels_last").click()
    facts = page.locator("dl dd").all_inner_texts()
    assert facts == ["False", "True", "24 elements in 24 cells"]
    assert "nothing is wrong" in page.locator(".note").first.inner_text()


def test_view_says_what_torch_would_say(mount):
    page = mount(StrideExplorer((3, 2), (1, 3)))
    assert "view size is not compatible" in page.locator(".answer").inner_text()
    page.get_by_label("x.view(").fill("3, 1, 2")
    assert page.locator(".answer").inner_text() == "a view: shape (3, 1, 2), strides (1, 6, 3), same storage"


def test_dimensions_come_and_go(mount):
    page = mount(StrideExplorer((2,)))
    page.get_by_role("button", name="Add a dimension").click()
    assert page.evaluate("[model.get('shape'), model.get('stride')]") == [[1, 2], [2, 1]]
    for _ in range(2):
        page.get_by_role("button", name="Drop dim 0").click()
    assert call(page) == "x = torch.as_strided(torch.arange(2), (), (), 0)"
    assert page.get_by_role("button", name="Drop dim 0").is_disabled()


def test_a_new_dimensions_stride_is_one_that_its_slider_has(mount):
    page = mount(StrideExplorer((2,), (32,)))
    page.get_by_role("button", name="Add a dimension").click()
    assert page.evaluate("model.get('stride')") == [32, 32]
    page.get_by_role("button", name="decrease stride of dimension 0").click()
    assert page.evaluate("model.get('stride')") == [31, 32]


def test_a_picture_too_large_is_refused_with_a_reason(mount):
    page = mount(StrideExplorer((8, 8)))
    page.get_by_role("button", name="Add a dimension").click()
    page.get_by_role("button", name="increase size of dimension 0").click()
    assert "holds 64 elements" in page.locator(".note").first.inner_text()
    assert page.evaluate("model.get('shape')") == [1, 8, 8]


def test_a_change_of_the_model_moves_the_picture(mount):
    page = mount(StrideExplorer())
    page.evaluate("model.set('shape', [6]); model.set('stride', [1])")
    assert call(page) == "x = torch.as_strided(torch.arange(6), (6,), (1,), 0)"


def answer_right(page):
    """Answer the question on the page from what it shows: code, sizes and strides."""
    import torch

    x = eval(call(page).removeprefix("x = "), {"torch": torch})
    prompt = page.locator("legend").inner_text()
    if "Which storage index" in prompt:
        index = eval(prompt.split("x[")[1].split("]")[0] + ",")
        page.get_by_role("spinbutton", name="Storage index").fill(str(x[index].item()))
    elif "is_contiguous" in prompt:
        page.get_by_label(str(x.is_contiguous())).check()
    else:
        copies = x.reshape(-1).untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
        page.get_by_label("No" if copies else "Yes").check()
    page.keyboard.press("Enter")


def test_quiz_scores_right_answers_with_the_reason(mount):
    page = mount(StrideExplorer(quiz=True, seed=5))
    for n in range(1, 9):
        answer_right(page)
        assert page.locator(".feedback").inner_text().startswith("Right. ")
        assert page.locator(".quizmode > .note").inner_text() == f"{n} of {n} right."
        assert page.locator(".quizmode .picture").is_visible()
        page.keyboard.press("Enter")  # the focus is on Next question


def test_quiz_corrects_a_wrong_answer(mount):
    page = mount(StrideExplorer(quiz=True, seed=5))
    page.get_by_role("spinbutton", name="Storage index").fill("99")
    page.get_by_role("button", name="Answer").click()
    assert page.locator(".feedback").inner_text().startswith("Wrong: the answer is ")
    assert page.locator(".quizmode > .note").inner_text() == "0 of 1 right."


def test_the_mode_button_switches_to_the_quiz(mount):
    page = mount(StrideExplorer())
    page.get_by_role("button", name="Quiz me").click()
    assert page.get_by_role("button", name="Answer").is_visible()
    page.get_by_role("button", name="Explore").click()
    assert slider(page, "storage offset").is_visible()


def test_jupyterlab_leaves_the_keys_to_the_widget(mount):
    page = mount(StrideExplorer())
    focusable = page.locator("#widget input, #widget button")
    assert focusable.count() > 20
    # Lumino looks for this attribute on the focused element before it runs a shortcut.
    assert focusable.count() == page.locator("#widget [data-lm-suppress-shortcuts=true]").count()


def test_no_question_on_a_phone_moves_what_stands_below(mount):
    page = mount(StrideExplorer(quiz=True, seed=5), width=390)
    heights = set()
    for _ in range(60):
        heights.add(page.evaluate("document.querySelector('.quizmode').firstElementChild.offsetHeight"))
        answer_right(page)
        page.keyboard.press("Enter")  # the focus is on Next question
    assert len(heights) == 1
