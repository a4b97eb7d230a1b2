import json
import platform

import pytest

from alps import __version__
from alps.errors import RunFolderError
from alps.run.folder import build_manifest, claim, write_json


def manifest(**changes):
    parts = {
        "settings": {"model": "rules", "limit": None, "temperature": 0.5},
        "system": {"name": "rules"},
        "data": {"split": "dev", "tracks": {"task1": {"n": 13, "sha256": "ab"}}},
        "prompts": {"extraction/1": "cd"},
        "judge": {"id": "ef", "judge": "lexical"},
    }
    return build_manifest(**{**parts, **changes})


def test_a_manifest_tells_the_version_of_the_code_of_python_and_of_the_libraries():
    built = manifest()
    assert built["alps"] == __version__
    assert built["versions"]["python"] == platform.python_version()
    assert {"litellm", "instructor", "pydantic", "scipy", "numpy"} <= built["versions"].keys()


def test_a_new_folder_is_claimed_by_writing_the_manifest(tmp_path):
    assert claim(tmp_path, manifest()) is False
    assert json.loads((tmp_path / "manifest.json").read_text()) == manifest()
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_the_same_run_finds_its_folder_again(tmp_path):
    claim(tmp_path, manifest())
    before = (tmp_path / "manifest.json").read_bytes()
    assert claim(tmp_path, manifest()) is True
    assert (tmp_path / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param(
            {"settings": {"model": "oracle", "limit": None, "temperature": 0.5}},
            'settings.model is "rules" there, "oracle" here',
            id="a setting",
        ),
        pytest.param(
            {"settings": {"model": "rules", "limit": 3, "temperature": 0.5}},
            "settings.limit is null there, 3 here",
            id="a setting that was not given",
        ),
        pytest.param(
            {"settings": {"model": "rules", "limit": None, "temperature": 0.5, "top_p": 1}},
            "settings.top_p is null there, 1 here",
            id="a setting more",
        ),
        pytest.param(
            {"settings": {"model": "rules", "limit": None}},
            "settings.temperature is 0.5 there, null here",
            id="a setting less",
        ),
        pytest.param(
            {"data": {"split": "dev", "tracks": {"task1": {"n": 14, "sha256": "xy"}}}},
            "data.tracks.task1.n is 13 there, 14 here",
            id="the data",
        ),
        pytest.param(
            {"prompts": {"extraction/1": "zz"}}, 'prompts.extraction/1 is "cd" there', id="a prompt"
        ),
        pytest.param({"judge": {"id": "ef", "judge": "minilm"}}, "judge.judge is", id="the judge"),
        pytest.param(
            {"system": {"name": "rules", "sha256": "q"}},
            "system.sha256 is null there",
            id="the system",
        ),
    ],
)
def test_another_run_is_refused_and_the_first_difference_named(tmp_path, changes, said):
    claim(tmp_path, manifest())
    before = (tmp_path / "manifest.json").read_bytes()
    with pytest.raises(RunFolderError, match="choose another out=") as raised:
        claim(tmp_path, manifest(**changes))
    assert said in str(raised.value)
    assert (tmp_path / "manifest.json").read_bytes() == before


def test_another_version_of_the_code_is_refused(tmp_path):
    claim(tmp_path, {**manifest(), "alps": "0.0.1"})
    with pytest.raises(RunFolderError, match=f'alps is "0.0.1" there, "{__version__}" here'):
        claim(tmp_path, manifest())


def test_another_version_of_a_library_is_no_other_run(tmp_path):
    claim(tmp_path, {**manifest(), "versions": {"python": "3.11.0"}})
    assert claim(tmp_path, manifest()) is True


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}", '{"settings": []}'], ids=repr)
def test_a_damaged_manifest_is_refused_and_left_as_it_is(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(RunFolderError):
        claim(tmp_path, manifest())
    assert (tmp_path / "manifest.json").read_text() == text


def test_tuples_and_lists_are_the_same_in_a_manifest(tmp_path):
    claim(tmp_path, manifest(system={"name": "x", "command": ("a", "b")}))
    assert claim(tmp_path, manifest(system={"name": "x", "command": ["a", "b"]})) is True


def test_a_file_that_is_written_replaces_the_old_one_whole(tmp_path):
    path = tmp_path / "summary.json"
    write_json(path, {"long": "x" * 1000})
    write_json(path, {"short": "é"})
    assert path.read_text(encoding="utf-8") == '{\n  "short": "é"\n}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_a_number_that_is_not_finite_leaves_the_old_file(tmp_path):
    path = tmp_path / "summary.json"
    write_json(path, {"value": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"value": float("nan")})
    assert json.loads(path.read_text()) == {"value": 1}
