"""Comments in any language, written by any editor: the code around them is read as it was typed."""

import json

import pytest

from autograder.intake.encodings import decoded
from autograder.intake.notebook_file import read

TEXTS = {
    "cp932": ["画像を表示する、能力のソート", "ここで表を作る", "表", "パッチの数をかぞえる", "日本語のコメント。"],
    "euc_jp": ["画像を表示する、能力のソート", "パッチの数をかぞえる"],
    "gb18030": ["把图像切成小块，不要复制数据", "视图与步长", "返回张量的形状。这里没有拷贝"],
    "gbk": ["先转置再变形（注意步长）"],
    "cp950": ["把圖像切成小塊，不要複製資料", "許功蓋：回傳張量的形狀", "程式碼的註解"],
    "cp949": ["이미지를 조각으로 나눈다", "복사하지 않는다. 보폭만 바꾼다"],
    "cp1252": [
        "Größe der Übung, schließlich",
        "à la française: déjà vu",
        "It’s a “view” – no copy",
        "ñandú, piñata",
        "5 µs, 3 °C",
    ],
}
SAMPLES = [(encoding, text) for encoding, texts in TEXTS.items() for text in texts]


def source(text: str) -> str:
    return f"x = 1  # {text}\ny = x + 1\n# {text}\ndef f():\n    '''{text}'''\n    return y\n"


@pytest.mark.parametrize(("encoding", "text"), SAMPLES)
@pytest.mark.parametrize("kind", ["notebook", "script"])
def test_code_with_comments_is_read_as_it_was_typed(tmp_path, encoding, text, kind):
    cells = [{"cell_type": "code", "source": source(text)}, {"cell_type": "markdown", "source": f"{text}\n{text}"}]
    written = json.dumps({"cells": cells}, ensure_ascii=False) if kind == "notebook" else source(text)
    path = tmp_path / "views.ipynb"
    path.write_bytes(written.encode(encoding))
    found = read(path, path.name)
    assert found.cells[0].source.strip() == source(text).strip()
    (note,) = found.notes
    assert note.startswith("The notebook is not in UTF-8, it was read as ")


@pytest.mark.parametrize("text", ["Привет, это срез тензора", "Γειά σου, κόσμε", "Zażółć gęślą jaźń", "שלום עולם"])
@pytest.mark.parametrize("encoding", ["cp1251", "koi8_r", "cp1253", "cp1250", "cp1255"])
def test_of_other_alphabets_the_code_is_read_and_the_comments_may_look_odd(tmp_path, text, encoding):
    try:
        raw = source(text).encode(encoding)
    except UnicodeEncodeError:
        pytest.skip("not in this alphabet")
    (tmp_path / "views.py").write_bytes(raw)
    (cell,) = read(tmp_path / "views.py", "views.py").cells
    space: dict = {}
    exec(cell.source, space)
    assert space["f"]() == 2


def test_where_two_were_possible_both_are_named():
    text, name = decoded("x = 1  # It’s\n".encode("cp1252"))
    assert text == "x = 1  # It’s\n" and name == "Windows-1252 (it may be Shift JIS)"


def test_a_single_kind_of_reading_is_named_alone():
    assert decoded("# 画像を表示する".encode("cp932"))[1] == "Shift JIS"
    assert decoded("# Größe".encode("cp1252"))[1] == "Windows-1252"
