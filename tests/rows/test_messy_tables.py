"""Tables as people have them: one small file for each way in which they are not as they should be.

Each is read rightly, or what was done and how to change it is said in a note.
"""

import gzip

import numpy as np
import pytest

from gemmed._core.exceptions import OutputError, TableError
from gemmed.estimators.table_columns import Handling, query_frame, table_pipeline, training_data
from gemmed.rows.tables import read_table, write_table

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

N = 24


def lines(*columns, header):
    """A CSV text of columns given as functions of the row, with a label at the end."""
    rows = [",".join(f"{column(i)}" for column in columns) for i in range(N)]
    return "\n".join([header, *rows]) + "\n"


def label(i):
    return ("good", "bad")[i % 2]


def number(i):
    return i * i % 53 + 0.5  # no two are equal below 27


@pytest.fixture
def data(tmp_path):
    def read(content, target="y", *, name="t.csv", roles=None, handling=None, **reading):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return training_data(
            read_table(path, **reading), target, **(roles or {}), handling=handling
        )

    return read


def said(data, about):
    """The only note about something."""
    notes = [note for note in data.notes if note.about == about]
    assert len(notes) == 1, data.notes
    return notes[0].text


def test_a_tidy_table_needs_no_note(data):
    found = data(lines(number, lambda i: "ab"[i % 3 > 0], label, header="x,kind,y"))
    assert found.notes == ()
    assert found.plan.numeric == ["x"] and found.plan.categories == ["kind"]


# -- labels ------------------------------------------------------------------------------------


def test_labels_that_differ_only_in_case_or_spaces(data):
    def spelt(i):
        return ("healthy", " HEALTHY", "not  well", "Not Well ", "healthy", "not well")[i % 6]

    content = lines(number, spelt, header="x,y")
    found = data(content)
    assert set(found.labels) == {"healthy", "not  well"}
    assert "'HEALTHY' for 'healthy'" in said(found, "labels")
    assert "--spelling as-written" in said(found, "labels")
    apart = data(content, handling=Handling(spelling="as-written"))
    assert len(set(apart.labels)) == 5 and apart.notes == ()


def test_many_letters_are_not_merged(data):
    letters = [chr(97 + i % 7) for i in range(14)] + [chr(65 + i % 7) for i in range(14)]
    content = "x,y\n" + "".join(f"{i % 5},{letter}\n" for i, letter in enumerate(letters))
    assert len(set(data(content).labels)) == 14


def test_labels_of_two_letters_are(data):
    found = data("x,y\n" + "".join(f"{i % 5},{'mfMF'[i % 4]}\n" for i in range(40)))
    assert set(found.labels) == {"m", "f"}


def test_classes_of_one_row_are_left_out(data):
    content = lines(number, label, header="x,y") + "3,odd\n4,even\n"
    found = data(content)
    assert len(found.labels) == N and set(found.labels) == {"good", "bad"}
    assert "2 rows of classes with fewer than 2 " in said(found, "rare classes")
    assert "'odd': 1" in said(found, "rare classes")
    more = data(content + "5,odd\n", handling=Handling(min_rows=3))
    assert len(more.labels) == N
    with pytest.raises(ValueError, match="min_rows=0"):
        data(content, handling=Handling(min_rows=0))


# -- cells -------------------------------------------------------------------------------------


def test_units_in_every_cell(data):
    found = data(lines(lambda i: f"{number(i)} mV", label, header="x,y"))
    np.testing.assert_array_equal(found.frame["x"], [number(i) for i in range(N)])
    assert "column 'x' is read as numbers: in 'mV'" in said(found, "unit")
    assert "--categorical 'x'" in said(found, "unit")


def test_units_that_differ_by_a_power_of_ten(data):
    def cell(i):
        return f"{number(i)} mV" if i % 5 else f"{number(i) / 1000} V"

    found = data(lines(cell, label, header="x,y"))
    np.testing.assert_allclose(found.frame["x"], [number(i) for i in range(N)])
    assert "'V' converted to 'mV'" in said(found, "unit")


def test_units_that_cannot_be_joined(data):
    cells = lines(number, lambda i: f"{i % 4} {('kg', 'lb')[i % 2]}", label, header="n,x,y")
    found = data(cells)
    assert found.plan.categories == ["x"]
    assert "several units (12 in 'kg', 12 in 'lb')" in said(found, "unit")


def test_a_cell_that_is_no_number_among_units_is_named(data):
    with pytest.raises(TableError, match=r"'x' .* holds numbers, but 'broken' in row 4 is none"):
        data(lines(lambda i: "broken" if i == 3 else f"{i} mV", label, header="x,y"))


@pytest.mark.parametrize(
    ("written", "reading"),
    [
        (lambda v: f'"{v:,.1f}"', {}),
        (lambda v: f'"{v:,.1f} €"', {}),
        (lambda v: f'"{v:.1f}"'.replace(".", ","), {}),
        (lambda v: f"{v:,.1f}".replace(",", " "), {}),
        (lambda v: f"{v:,.1f}".replace(",", "'"), {}),
        (lambda v: f'"{v:,.1f}"'.replace(",", "x").replace(".", ",").replace("x", "."), {}),
        (lambda v: f'"{v:,.0f}"'.replace(",", "."), {"decimal": ","}),
    ],
)
def test_thousands_separators_and_decimal_marks(data, written, reading):
    """Also with the other meaning of comma and point, and with a currency."""
    whole = "decimal" in reading
    values = [int(number(i) * (1 if i % 3 else 1234.0)) + (0 if whole else 0.5) for i in range(N)]
    found = data(lines(lambda i: written(values[i]), label, header="x,y"), **reading)
    assert found.frame["x"].tolist() == values
    assert len(found.notes) == 1 and "read as numbers" in found.notes[0].text


def test_a_point_before_three_digits_beside_decimal_commas(data):
    """In a table of decimal commas 1.234 is more than a thousand; alone it is noted."""
    rows = [f"{i % 9 + 1}.{i % 7}00;{i % 5},5;{label(i)}" for i in range(N)]
    found = data("\n".join(["x;z;y", *rows]))
    assert found.frame["x"].tolist() == [(i % 9 + 1) * 1000 + i % 7 * 100 for i in range(N)]
    assert "'.' separates thousands" in said(found, "thousands")
    rows = [f"{i % 9 + 1}.{i % 7}00;{label(i)}" for i in range(N)]
    found = data("\n".join(["x;y", *rows]))
    assert found.frame["x"][0] == 1.0
    assert "--decimal ," in said(found, "thousands")


@pytest.mark.parametrize(
    "written",
    ["{:%Y-%m-%d}", "{:%d.%m.%Y}", "{:%m/%d/%Y %H:%M}", "{:%Y-%m-%dT%H:%M:%SZ}", "{:%d %b %Y}"],
)
def test_dates_are_left_out_and_can_be_used_as_days(data, written):
    days = [pd.Timestamp("2021-01-20") + pd.Timedelta(days=i * 7 % 50) for i in range(N)]
    content = lines(number, lambda i: written.format(days[i]), label, header="x,when,y")
    found = data(content)
    assert "dates or times" in found.plan.left_out["when"]
    assert "--numeric" in found.plan.left_out["when"]
    used = data(content, roles={"numeric": ("when",)})
    expected = [(day - pd.Timestamp("1970-01-01")).days for day in days]
    assert used.frame["when"].tolist() == expected


def test_dates_of_parquet_files(tmp_path):
    frame = pd.DataFrame(
        {
            "x": [number(i) for i in range(N)],
            "when": pd.date_range("2020-01-01", periods=N // 2).repeat(2),
            "y": [label(i) for i in range(N)],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    found = training_data(read_table(tmp_path / "t.parquet"), "y")
    assert "dates or times" in found.plan.left_out["when"]


def test_free_text_is_left_out(data):
    words = [f"seen by nurse {i % 40} after lunch" for i in range(80)]
    content = "x,remark,y\n" + "".join(f"{number(i)},{words[i]},{label(i)}\n" for i in range(80))
    found = data(content)
    assert "free text, 40 different texts of 6 words" in found.plan.left_out["remark"]
    assert data(content, roles={"categorical": ("remark",)}).plan.categories == ["remark"]


def test_categories_that_differ_only_in_case(data, tmp_path):
    content = lines(number, lambda i: ("north", "North ", "south")[i % 3], label, header="x,w,y")
    found = data(content)
    assert set(found.frame["w"]) == {"north", "south"}
    assert "'North' for 'north'" in said(found, "spelling")
    assert len(set(data(content, handling=Handling("as-written")).frame["w"])) == 3


# -- rows and columns --------------------------------------------------------------------------


def test_repeated_rows_are_noted_and_can_be_used_once(data):
    rows = "".join(f"{number(i)},{i},{label(i)}\n" for i in range(0, N, 1))
    content = "x,z,y\n" + rows.replace(",7,", ",7.0,") + "0.5,0,good\n0.5,0,good\n0.5,0,bad\n"
    found = data(content)
    assert len(found.labels) == N + 3
    text = said(found, "duplicates")
    assert "2 rows repeat an earlier row in all columns" in text and "--duplicates once" in text
    assert "1 row repeats an earlier row with another label" in text
    once = data(content, handling=Handling(duplicates="once"))
    assert once.rows.tolist() == [*range(N), N + 2]


def test_an_unnamed_first_column_names_the_rows(data):
    found = data(lines(lambda i: f"r{i}", number, label, header=",x,y"))
    assert found.plan.numeric == ["x"]
    assert "names the rows" in found.plan.left_out["index"]
    assert "the first column" in said(found, "index")


def test_the_names_of_rows_of_r(data):
    found = data(lines(lambda i: f'"{i + 1}"', number, label, header='"x","y"'))
    assert found.plan.numeric == ["x"] and "names the rows" in found.plan.left_out["index"]


def test_a_column_that_counts_the_rows(data):
    content = lines(lambda i: i + 1, number, label, header="Unnamed: 0,x,y")
    found = data(content)
    assert "numbers the rows" in found.plan.left_out["Unnamed: 0"]
    assert data(content, roles={"numeric": ("Unnamed: 0",)}).plan.numeric == ["Unnamed: 0", "x"]


def test_a_header_of_numbers_only_is_a_row(data):
    rows = "".join(f"{number(i)},{i % 2}\n" for i in range(N))
    found = data(rows, "c2")
    assert len(found.labels) == N and found.frame["c1"][0] == number(0)
    assert "--header yes" in said(found, "header")
    assert len(data(rows, "0", header="yes").labels) == N - 1
    named = data("0,1,2,3\n" + "".join(f"1,2,{i % 5},{i % 2}\n" for i in range(N)), "3")
    assert len(named.labels) == N and "--header no" in said(named, "header")


def test_a_table_without_header(data):
    found = data(lines(number, label, header="7.5,good"), "c2", header="no")
    assert len(found.labels) == N + 1 and found.plan.numeric == ["c1"]


def test_a_compressed_file(data):
    content = gzip.compress(lines(number, label, header="x,y").encode())
    assert len(data(content, name="t.csv.gz").labels) == N


def test_comment_lines(data):
    content = "# logger 7\n# " + "-" * 20 + "\n" + lines(number, label, header="x,y") + "# end\n"
    found = data(content)
    assert len(found.labels) == N and list(found.frame) == ["x"]
    assert "--comment none" in said(found, "comments")
    with pytest.raises(TableError, match="line 3 of"):
        data(content, comment="none")
    other = data(content.replace("#", "%"), comment="%")
    assert len(other.labels) == N


def test_a_comment_line_that_is_the_header(data):
    found = data("# made today\n" + lines(number, label, header="#x,y"))
    assert len(found.labels) == N and found.plan.numeric == ["x"]
    assert "is its header" in said(found, "header")


def test_a_separator_at_the_end_of_every_row(data):
    found = data(lines(number, label, lambda i: "", header="x,y,"))
    assert found.plan.left_out == {"column 3": "no values"}


@pytest.mark.parametrize("name", ["t.ods", "t.json", "T.XLS"])
def test_other_formats_are_not_written_under_their_name(tmp_path, name):
    with pytest.raises(OutputError, match=r"choose a name that ends in \.csv"):
        write_table(pd.DataFrame({"x": [1]}), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["t.tsv", "t.csv.gz", "t.tsv.xz", "t.txt", "t.pq"])
def test_written_tables_are_what_their_name_says(tmp_path, name):
    write_table(pd.DataFrame({"x": [1.5, 2], "t": ["a,b", "c"]}), tmp_path / name)
    table = read_table(tmp_path / name)
    assert table.text("t")[0].tolist() == ["a,b", "c"]
    if ".tsv" in name:
        assert table.form.delimiter == "\t"


# -- later tables ------------------------------------------------------------------------------


def test_later_tables_are_read_in_the_same_way(data, tmp_path):
    """Units, thousands and spellings of the training table hold for rows to predict."""
    from gemmed import MEDClassifier
    from gemmed.io.model_files import load_model, save_model

    content = lines(
        lambda i: f"{number(i)} mV",
        lambda i: f'"{1000 + 100 * i:,}"',
        lambda i: ("north", "South")[i % 3 > 1],
        label,
        header="x,n,w,y",
    )
    found = data(content)
    pipeline = table_pipeline(MEDClassifier(), found.frame, found.plan, scaling="robust")
    pipeline[-1].fit(pipeline[0].transform_frame(found.frame), found.labels)
    save_model(pipeline, tmp_path / "m")
    model = load_model(tmp_path / "m")
    (tmp_path / "q.csv").write_text(
        'n,w,x\n"2,000",NORTH,0.0035 V\n"1,100",south,9500 µV\n900,moon,4\n'
    )
    frame = query_frame(read_table(tmp_path / "q.csv"), model)
    assert frame["x"].tolist() == [3.5, 9.5, 4.0]
    assert frame["n"].tolist() == [2000, 1100, 900]
    assert frame["w"].tolist() == ["north", "South", "moon"]
    (tmp_path / "q.csv").write_text("n,w,x\n1,north,5 kg\n")
    with pytest.raises(TableError, match="'5 kg' in row 1"):
        query_frame(read_table(tmp_path / "q.csv"), model)
