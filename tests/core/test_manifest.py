import json
import platform

import pytest

from alps import __version__
from alps.errors import RunFolderError
from alps.run.folder import build_manifest, claim, write_json


def manifest(**changes):
    parts = {
        "settings": SETTINGS,
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


def test_a_new_folder_is_claimed_by_writing_the_manifest_and_found_again_by_the_same_run(tmp_path):
    path = tmp_path / "manifest.json"
    assert claim(tmp_path, manifest()) is False
    before = path.read_bytes()
    assert json.loads(before) == manifest()
    assert claim(tmp_path, manifest()) is True
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


SETTINGS = {"model": "rules", "limit": None, "temperature": 0.5}
LESS = {"model": "rules", "limit": None}
DATA = {"split": "dev", "tracks": {"task1": {"n": 14, "sha256": "xy"}}}


def given(**settings):
    return {"settings": SETTINGS | settings}


OTHERS = {
    "a setting": (given(model="oracle"), 'settings.model is "rules" there, "oracle" here'),
    "a setting that was not given": (given(limit=3), "settings.limit is null there, 3 here"),
    "a setting more": (given(top_p=1), "settings.top_p is null there, 1 here"),
    "a setting less": ({"settings": LESS}, "settings.temperature is 0.5 there, null here"),
    "the data": ({"data": DATA}, "data.tracks.task1.n is 13 there, 14 here"),
    "a prompt": ({"prompts": {"extraction/1": "zz"}}, 'prompts.extraction/1 is "cd" there'),
    "the judge": ({"judge": {"id": "ef", "judge": "minilm"}}, "judge.judge is"),
    "the system": ({"system": {"name": "rules", "sha256": "q"}}, "system.sha256 is null there"),
    "the code": ({"alps": "0.0.1"}, f'alps is "{__version__}" there, "0.0.1" here'),
}


@pytest.mark.parametrize(("changes", "said"), OTHERS.values(), ids=OTHERS)
def test_another_run_is_refused_and_the_first_difference_named(tmp_path, changes, said):
    claim(tmp_path, manifest())
    before = (tmp_path / "manifest.json").read_bytes()
    with pytest.raises(RunFolderError, match="choose another out=") as raised:
        claim(tmp_path, {**manifest(), **changes})
    assert said in str(raised.value)
    assert (tmp_path / "manifest.json").read_bytes() == before


def test_other_libraries_and_lists_for_tuples_are_no_other_run(tmp_path):
    older = {**manifest(), "versions": {"python": "3.11.0"}}
    claim(tmp_path, {**older, "system": {"name": "x", "command": ("a", "b")}})
    assert claim(tmp_path, manifest(system={"name": "x", "command": ["a", "b"]})) is True


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}", '{"settings": []}'], ids=repr)
def test_a_damaged_manifest_is_refused_and_left_as_it_is(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(RunFolderError):
        claim(tmp_path, manifest())
    assert (tmp_path / "manifest.json").read_text() == text


def test_a_file_that_is_written_replaces_the_old_one_whole_or_leaves_it(tmp_path):
    path = tmp_path / "summary.json"
    write_json(path, {"long": "x" * 1000})
    write_json(path, {"short": "é"})
    text = '{\n  "short": "é"\n}\n'
    assert path.read_text(encoding="utf-8") == text
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"value": float("nan")})
    assert path.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [path]
