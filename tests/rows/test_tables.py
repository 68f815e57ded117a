"""Tables from files, and the pipeline that learns from them."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gemmed import GEMMEDClassifier, MEDClassifier
from gemmed._core.exceptions import TableError
from gemmed.estimators.table_columns import (
    feature_frame,
    fit_pipeline,
    plan_of,
    query_frame,
    table_pipeline,
    training_data,
    unseen_categories,
)
from gemmed.estimators.table_preparation import FarLimit
from gemmed.io.model_files import load_model, save_model
from gemmed.rows.tables import Table, csv_text, read_table, write_table

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.fixture
def patients():
    """60 rows: two classes two units apart, text, truth values, gaps, names of rows."""
    rng = np.random.default_rng(0)
    ill = np.arange(60) % 2 == 0
    return pd.DataFrame(
        {
            "name": [f"P{i}" for i in range(60)],
            "age": np.where(np.arange(60) == 4, np.nan, rng.normal(size=60) + 2.0 * ill),
            "dose": rng.normal(size=60) + 2.0 * ill,
            "alarms": (np.arange(60) % 7 == 0) * 3.0,
            "ward": np.where(np.arange(60) == 8, None, rng.choice(["north", "south"], 60)),
            "smoker": rng.random(60) > 0.5,
            "diagnosis": np.where(ill, "ill", "well"),
        }
    )


def table_of(frame):
    return Table("the table", frame)


# -- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1.5,x\n2,y\n",
        "a;b\n1,5;x\n2;y\n",
        "a\tb\n1.5\tx\n2\ty\n",
        "a|b\r\n1.5|x\r\n2|y\r\n",
        "\ufeffa,b\n1.5,x\n\n2,y\n",
        '"a","b"\n"1.5","x"\n"2","y"\n',
        " a , b\n 1.5, x\n 2 ,y \n",
        "a,b\n1.5,x\n2,y\n".encode("utf-16"),
    ],
)
def test_the_same_table_in_every_dialect(write, content):
    table = read_table(write(content))
    assert table.columns == ["a", "b"]
    assert table.only_numbers("a", "test").tolist() == [1.5, 2.0]
    assert table.text("b")[0].tolist() == ["x", "y"]


def test_a_separator_inside_quotes_does_not_count(write):
    table = read_table(write('"a;x;y;z",b\n1,2\n'))
    assert table.columns == ["a;x;y;z", "b"]


def test_parquet_and_csv_give_the_same_cells(tmp_path, patients):
    patients.to_parquet(tmp_path / "t.parquet")
    patients.to_csv(tmp_path / "t.csv", index=False)
    left, right = read_table(tmp_path / "t.parquet"), read_table(tmp_path / "t.csv")
    assert left.columns == right.columns
    for name in ("name", "ward", "smoker", "diagnosis"):
        for one, other in zip(left.text(name), right.text(name), strict=True):
            assert one.tolist() == other.tolist(), name
    for name in ("age", "dose", "alarms"):
        assert left.numbers(name)[0].tobytes() == right.numbers(name)[0].tobytes(), name
    as_codes = [
        training_data(table, "diagnosis", categorical=("alarms",)).frame["alarms"].tolist()
        for table in (left, right)
    ]
    assert as_codes[0] == as_codes[1]


def test_parquet_types_beyond_numbers_and_text(tmp_path):
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2020-01-01", periods=2),
            "list": [[1, 2], [3]],
            "whole": pd.array([None, 2**60 + 1], dtype="Int64"),
            "flag": [True, None],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.text("when")[0][0].startswith("2020-01-01")
    assert table.text("list")[1].all()
    assert table.text("whole")[0].tolist() == ["", str(2**60 + 1)]
    assert table.text("flag")[0].tolist() == ["True", ""]


def test_missing_values_are_marked_in_many_ways(write):
    table = read_table(write("a,b\nNA,1\nnull,1\n?,1\n,1\n-999,1\nNaN,1\n7,1\n"), missing=("-999",))
    values = table.only_numbers("a", "test")
    assert np.isnan(values[:6]).all() and values[6] == 7


def test_encodings(write):
    path = write("straße,b\nä,1\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"not UTF-8 \(line 1\).*--encoding latin-1"):
        read_table(path)
    assert read_table(path, encoding="latin-1").columns == ["straße", "b"]
    with pytest.raises(TableError, match="'nonsense' is unknown"):
        read_table(path, encoding="nonsense")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("a,b\n", "header but no rows"),
        (b"\x89PNG\0\0\0", "binary data"),
        (b"PK\x03\x04....", "a zip archive"),
        (b"\xd0\xcf\x11\xe0....", "old Excel workbook .*save the table as CSV"),
        (b"PAR1....PAR1", "damaged Parquet"),
        ("a,b\n1,2\n3\n", "line 3 of .* has 1 cells, the header has 2"),
        ("a,b\n1,2,3\n", "line 2 of .* has 3 cells, the header has 2"),
        ('a,b\n1,"2\n3,4\n', "unexpected end"),
        ("a,a,b,b\n1,2,3,4\n", "more than one column 'a', 'b'"),
        ("a,,b\n1,2,3\n", "column 2 of .* has no name"),
    ],
)
def test_files_that_are_no_tables(write, content, message):
    with pytest.raises(TableError, match=message) as refusal:
        read_table(write(content))
    assert "table.csv" in str(refusal.value)


def test_parquet_text_that_is_no_utf8(tmp_path):
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"a": ["seven", "eight"]})
    frame.to_parquet(path, compression=None)
    assert read_table(path).text("a")[0].tolist() == ["seven", "eight"]
    path.write_bytes(path.read_bytes().replace(b"seven", b"\xff\xfeven"))
    with pytest.raises(TableError, match=r"is a damaged Parquet file.*UTF8"):
        read_table(path)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(TableError, match="No such file"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(TableError, match="is a folder"):
        read_table(tmp_path)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_what_is_written_can_be_read(tmp_path, name):
    frame = pd.DataFrame({"x": [0.1 + 0.2, 1e-300], "t": ["a,b", 'c"d\ne'], "n": [1, 2]})
    write_table(frame, tmp_path / name)
    table = read_table(tmp_path / name)
    assert table.only_numbers("x", "test").tolist() == [0.1 + 0.2, 1e-300]
    assert table.text("t")[0].tolist() == ["a,b", 'c"d\ne']


def test_a_csv_table_is_written_again_as_it_was(write):
    text = 'a,b,c\n007,NA,"x, y"\n1e3,,TRUE\n'
    assert csv_text(read_table(write(text)).frame) == text


# -- columns -----------------------------------------------------------------------------------


def test_cells_that_are_no_numbers_are_named_with_their_row(write):
    table = read_table(write("a,b,c,d\n1,inf,1,1\nabc,2,1e200,\n"))
    with pytest.raises(TableError, match=r"column 'a' .* has 'abc' in row 2, which is not"):
        table.only_numbers("a", "test")
    with pytest.raises(TableError, match=r"column 'b' .* has 'inf' in row 1, which is infinite"):
        table.only_numbers("b", "test")
    with pytest.raises(TableError, match="'1e200' in row 2"):
        table.only_numbers("c", "test")
    with pytest.raises(TableError, match="no value in row 2"):
        table.complete_numbers("d", "weight")


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["0", "1"], [0, 1]),
        (["-1.0", "1.0"], [-1, 1]),
        (["0.5", "1"], ["0.5", "1"]),
        (["no", "1"], ["no", "1"]),
        ([str(10**25), str(10**25 + 1)], [str(10**25), str(10**25 + 1)]),
        (["True", "False"], ["True", "False"]),
    ],
)
def test_labels_are_whole_numbers_or_text_as_written(cells, labels):
    found, present = table_of(pd.DataFrame({"y": cells})).labels("y")
    assert found.tolist() == labels
    assert present.all()


def test_columns_are_sorted_by_what_they_hold(patients):
    data = training_data(table_of(patients.assign(empty=None)), "diagnosis")
    assert data.plan.numeric == ["age", "dose", "alarms"]
    assert data.plan.categories == ["ward", "smoker"]
    assert set(data.plan.left_out) == {"name", "empty"}
    assert data.frame["ward"][8] == "(missing)"


def test_columns_with_a_role_are_not_features(patients):
    table = table_of(patients.assign(who=np.arange(60) // 3, w=2.0, trust=0.5))
    data = training_data(
        table, "diagnosis", group="who", weight="w", prior="trust", drop=("dose", "name")
    )
    assert list(data.frame.columns) == ["age", "alarms", "ward", "smoker"]
    assert data.options["groups"].tolist() == [str(i // 3) for i in range(60)]
    assert data.options["sample_weight"].tolist() == [2.0] * 60
    assert data.options["prior_nominal"].tolist() == [0.5] * 60
    with pytest.raises(TableError, match="'dose' cannot be both weight and drop"):
        training_data(table, "diagnosis", weight="dose", drop=("dose",))


def test_codes_can_be_declared_categories(patients):
    table = table_of(patients)
    data = training_data(table, "diagnosis", categorical=("alarms",))
    assert data.plan.numeric == ["age", "dose"]
    assert set(data.frame["alarms"]) == {"0", "3"}


def test_rows_without_a_label_are_left_out(patients):
    patients.loc[[3, 10], "diagnosis"] = None
    data = training_data(table_of(patients), "diagnosis")
    assert len(data.labels) == len(data.frame) == 58
    assert data.rows.tolist() == [i for i in range(60) if i not in (3, 10)]
    assert data.frame["dose"][3] == patients["dose"][4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"diagnosis": "ill"}, "one class only, 'ill'"),
        ({"diagnosis": None}, "has no values"),
        ({"diagnosis": np.arange(60)}, "60 different values in 60 rows"),
        ({"age": ["error"] + ["1"] * 59}, "'age' of the table holds numbers, but 'error' in row 1"),
        ({"age": [np.inf] + [1.0] * 59}, "'inf' in row 1"),
    ],
)
def test_tables_that_cannot_be_learned_from(patients, change, message):
    with pytest.raises(TableError, match=message):
        training_data(table_of(patients.assign(**change)), "diagnosis")


def test_absent_columns_are_named(patients):
    with pytest.raises(TableError, match=r"no column 'disease' \(target\).*'diagnosis'"):
        training_data(table_of(patients), "disease")
    with pytest.raises(TableError, match=r"no column 'nothing' \(drop\)"):
        training_data(table_of(patients), "diagnosis", drop=("nothing",))
    with pytest.raises(TableError, match="no column to learn from"):
        training_data(table_of(patients[["name", "diagnosis"]]), "diagnosis")


def test_rows_of_weight_0_are_left_out(patients):
    table = table_of(patients.assign(w=np.where(np.arange(60) < 3, 0.0, 1.0)))
    data = training_data(table, "diagnosis", weight="w")
    assert data.rows.tolist() == list(range(3, 60))
    assert len(data.frame) == len(data.options["sample_weight"]) == 57
    assert "left out: 3 rows of weight 0 in column 'w'" in [note.text for note in data.notes]


def test_groups_and_weights_must_be_complete(patients):
    with pytest.raises(TableError, match=r"'ward'.*group.*row 9"):
        training_data(table_of(patients), "diagnosis", group="ward")
    with pytest.raises(TableError, match=r"'age'.*weight.*row 5"):
        training_data(table_of(patients), "diagnosis", weight="age")


# -- the pipeline ------------------------------------------------------------------------------


def pipeline_of(patients, scaling="robust"):
    data = training_data(table_of(patients), "diagnosis")
    pipeline = table_pipeline(
        GEMMEDClassifier(random_state=0), data.frame, data.plan, scaling=scaling
    )
    return fit_pipeline(pipeline, data), data


def test_the_features_are_what_the_documentation_says(patients):
    """Against medians, quartiles and means computed here."""
    pipeline, data = pipeline_of(patients)
    features = pipeline[:-1].transform(data.frame)
    names = pipeline[:-1].get_feature_names_out().tolist()
    assert len(names) == 3 + 1 + 3 + 2
    age = patients["age"].fillna(patients["age"].median())
    low, high = np.percentile(age, [25, 75])
    normal_quartiles = 1.3489795003921634
    np.testing.assert_allclose(
        features[:, names.index("robust__age")],
        (age - age.median()) / ((high - low) / normal_quartiles),
    )
    alarms = patients["alarms"]  # its quartiles agree
    np.testing.assert_allclose(
        features[:, names.index("standard__alarms")], (alarms - alarms.mean()) / alarms.std(ddof=0)
    )
    missing = features[:, names.index("missing__missingindicator_age")]
    assert np.flatnonzero(missing).tolist() == [4]
    wards = features[:, [i for i, name in enumerate(names) if "ward" in name]]
    assert (wards.sum(axis=1) == 1).all()


def test_standard_scaling(patients):
    pipeline, data = pipeline_of(patients, "standard")
    features = pipeline[:-1].transform(data.frame)
    np.testing.assert_allclose(features[:, :3].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(features[:, :3].std(axis=0), 1)
    with pytest.raises(ValueError, match="scaling='odd'"):
        table_pipeline(MEDClassifier(), data.frame, data.plan, scaling="odd")


@pytest.mark.parametrize("value", [1e4, 1e12])
def test_one_broken_reading_does_not_break_the_fit(patients, value):
    """1e12 beside readings around 1 leaves no digits for the others unless it is moved."""
    patients.loc[20, "dose"] = value
    pipeline, data = pipeline_of(patients)
    assert np.abs(pipeline[:-1].transform(data.frame)).max() <= 1e4
    assert pipeline[-1].state_proba_[20, 2] > 0.99
    assert pipeline.score(data.frame, data.labels) > 0.8


def test_groups_weights_and_priors_reach_the_classifier(patients):
    row = np.arange(60)
    table = table_of(patients.assign(trust=np.where(row == 0, 0.0, 0.95), who=row // 3))
    data = training_data(table, "diagnosis", prior="trust", group="who", drop=("name",))
    model = GEMMEDClassifier(random_state=0, n_neighbors=5)
    pipeline = fit_pipeline(table_pipeline(model, data.frame, data.plan, scaling="robust"), data)
    assert pipeline[-1].nominal_proba_[0] == 0.0
    direct = GEMMEDClassifier(random_state=0, n_neighbors=5).fit(
        pipeline[:-1].transform(data.frame),
        data.labels,
        prior_nominal=table.frame["trust"].to_numpy(),
        groups=table.frame["who"].to_numpy(),
    )
    np.testing.assert_array_equal(direct.nominal_proba_, pipeline[-1].nominal_proba_)


def test_queries_are_matched_by_name_and_kind(tmp_path, patients):
    pipeline, data = pipeline_of(patients)
    save_model(pipeline, tmp_path / "m")
    model = load_model(tmp_path / "m")
    assert plan_of(model) == data.plan._replace(left_out={})
    expected = pipeline.decision_function(data.frame)
    shuffled = patients[patients.columns[::-1]].assign(extra=1)
    shuffled.to_csv(tmp_path / "q.csv", index=False)
    for table in (table_of(shuffled), read_table(tmp_path / "q.csv")):
        assert model.decision_function(query_frame(table, model)).tobytes() == expected.tobytes()
    with pytest.raises(TableError, match=r"no column 'dose', 'ward' \(used by the model\)"):
        query_frame(table_of(patients.drop(columns=["dose", "ward"])), model)
    with pytest.raises(TableError, match=r"'dose' .* has 'high' in row 1"):
        query_frame(table_of(patients.assign(dose="high")), model)


def test_unseen_categories_are_found(patients):
    pipeline, data = pipeline_of(patients)
    frame = query_frame(table_of(patients.assign(ward="moon")), pipeline)
    assert unseen_categories(frame, pipeline) == {"ward": ["moon"]}
    assert unseen_categories(data.frame, pipeline) == {}


def test_models_fitted_on_plain_frames_work_too(patients):
    numbers = patients[["dose", "alarms"]]
    model = MEDClassifier().fit(numbers, patients["diagnosis"])
    frame = query_frame(table_of(patients), model)
    assert model.predict(frame).tolist() == model.predict(numbers).tolist()
    assert unseen_categories(frame, model) == {}
    with pytest.raises(TableError, match="without column names"):
        plan_of(MEDClassifier().fit(numbers.to_numpy(), patients["diagnosis"]))


def test_codes_with_leading_zeros_keep_their_meaning(write):
    """Training sees 01 and x2 (text); a later file with 01 only must not read it as 1."""
    lines = [f"{'01' if i % 2 else 'x2'},{i % 3},{'b' if i % 2 else 'a'}" for i in range(40)]
    train = read_table(write("code,n,y\n" + "\n".join(lines) + "\n"))
    data = training_data(train, "y")
    pipeline = table_pipeline(MEDClassifier(), data.frame, data.plan, scaling="robust")
    fit_pipeline(pipeline, data)
    query = query_frame(read_table(write("code,n\n01,0\n01,1\n", "query.csv")), pipeline)
    assert unseen_categories(query, pipeline) == {}
    assert pipeline.predict(query).tolist() == ["b", "b"]


def test_feature_frame_has_floats_and_strings_only(patients):
    data = training_data(table_of(patients), "diagnosis")
    frame = feature_frame(table_of(patients), data.plan)
    assert {str(kind) for kind in frame.dtypes} == {"float64", "object"}


@parametrize_with_checks([FarLimit()])
def test_far_limit_is_a_transformer_of_scikit_learn(estimator, check):
    check(estimator)
