"""The folder of notes that a model writes: what its commands do, and that none leads out of it."""

import json
import os
import threading
from contextlib import suppress

import pytest

from alps.ext.memory.notes_tool import (
    COMMANDS,
    DEEPEST,
    LARGEST,
    MOST,
    MOST_SHOWN,
    NAME,
    READING,
    Folder,
    carry_out,
    tool,
)

SECRET = "the secret outside"


@pytest.fixture
def place(tmp_path):
    """A folder of notes beside a file and a folder that are none of its business."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text(SECRET)
    place = tmp_path / "notes"
    Folder(place)
    (place / "kept.md").write_text("one\ntwo\nthree\n")
    return place


def call(place, command, *, only=COMMANDS, **arguments):
    asked = json.dumps({"command": command, **arguments})
    return carry_out(Folder(place), NAME, asked, only)


def everything(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        found[str(path)] = path.read_bytes() if path.is_file() else None
    return found


def test_six_commands_keep_notes(place):
    assert COMMANDS == ("view", "create", "str_replace", "insert", "delete", "rename")
    assert call(place, "view", path="/memories") == "/memories/kept.md"
    assert call(place, "view", path="/memories/kept.md") == "1\tone\n2\ttwo\n3\tthree"
    assert call(place, "view", path="/memories/kept.md", view_range=[2, -1]) == "2\ttwo\n3\tthree"
    call(place, "create", path="/memories/a/b.md", file_text="")
    assert call(place, "view", path="/memories/a/b.md") == "/memories/a/b.md is empty."
    call(place, "insert", path="/memories/a/b.md", insert_line=0, insert_text="- x\n- y")
    call(place, "str_replace", path="/memories/a/b.md", old_str="- y", new_str="- z")
    call(place, "rename", old_path="/memories/a/b.md", new_path="/memories/c/d.md")
    assert (place / "c" / "d.md").read_text() == "- x\n- z\n"
    assert call(place, "view", path="/memories/a") == "/memories/a is empty."
    call(place, "rename", old_path="/memories/c", new_path="/memories/e")
    call(place, "delete", path="/memories/a")
    call(place, "delete", path="/memories/kept.md")
    assert call(place, "view", path="/memories") == "/memories/e/d.md"


def test_a_model_is_offered_the_commands_that_it_may_call():
    for commands, arguments in ((COMMANDS, 10), (READING, 3)):
        parameters = tool(commands)["function"]["parameters"]
        assert parameters["properties"]["command"]["enum"] == list(commands)
        assert len(parameters["properties"]) == arguments


def test_a_long_file_is_shown_in_parts(place):
    (place / "long.md").write_text("".join(f"{'x' * 99}\n" for _ in range(900)))
    shown = call(place, "view", path="/memories/long.md")
    *lines, last = shown.splitlines()
    assert len(shown) < MOST_SHOWN + 100
    assert last == f"… to see lines {len(lines) + 1} to 900, set view_range"
    rest = call(place, "view", path="/memories/long.md", view_range=[880, 900])
    assert len(rest.splitlines()) == 21


DEEP = "/memories/" + "/".join("abcdefgh")
OUT = [
    *("../outside/secret.md", "/memories/../outside/secret.md", "/memories/a/../../outside"),
    *("/memories/..", "/memories/./kept.md", "/memories//etc//passwd/..", "/memories/.hidden"),
    *("/etc/passwd", "/memoriesx/kept.md", "memories/kept.md", "", DEEP),
    *("/memories/..\\outside\\secret.md", "/memories/C:secret.md"),
    *("/memories/kept.md\0.png", "/memories/two\nlines.md", "/memories/bell\a.md"),
    *("/memories/\u202ekept.md", "/memories/half\ud800.md"),
    *("/memories/NUL", "/memories/con.md", "/memories/com1.txt"),
    *(f"/memories/{'n' * 200}", f"/memories/{'ü' * 100}"),
]


@pytest.mark.parametrize("path", OUT)
def test_a_path_that_leads_out_or_is_no_name_is_refused_in_a_line(path, place):
    before = everything(place.parent)
    answers = [
        call(place, "view", path=path),
        call(place, "create", path=path, file_text="x"),
        call(place, "str_replace", path=path, old_str="s", new_str="x"),
        call(place, "insert", path=path, insert_line=0, insert_text="x"),
        call(place, "delete", path=path),
        call(place, "rename", old_path=path, new_path="/memories/new.md"),
        call(place, "rename", old_path="/memories/kept.md", new_path=path),
    ]
    for answer in answers:
        assert answer.startswith("Error: ")
        assert len(answer.splitlines()) == 1
        assert answer.isprintable()
        assert SECRET not in answer
    assert everything(place.parent) == before


def test_what_a_name_encodes_is_a_name(place):
    call(place, "create", path="/memories/%2e%2e%2fout.md", file_text="x")
    assert (place / "%2e%2e%2fout.md").read_text() == "x"


LINKED = ("file.md", "folder/secret.md", "folder", "hard.md", "pipe", "loop/x.md")


@pytest.fixture
def linked(place):
    """Links and pipes that somebody else has put there."""
    outside = place.parent / "outside"
    (place / "file.md").symlink_to(outside / "secret.md")
    (place / "folder").symlink_to(outside, target_is_directory=True)
    os.link(outside / "secret.md", place / "hard.md")
    os.mkfifo(place / "pipe")
    (place / "loop").symlink_to(place, target_is_directory=True)
    return place


@pytest.mark.parametrize("name", LINKED)
def test_links_are_not_followed_and_pipes_not_waited_for(name, linked):
    path = f"/memories/{name}"
    answers = [
        call(linked, "view", path=path),
        call(linked, "str_replace", path=path, old_str="secret", new_str="x"),
        call(linked, "insert", path=path, insert_line=0, insert_text="x"),
    ]
    for answer in answers:
        assert answer.startswith("Error: ")
        assert SECRET not in answer
    call(linked, "create", path=path, file_text="mine")
    call(linked, "rename", old_path="/memories/kept.md", new_path=path)
    call(linked, "delete", path=path)
    outside = linked.parent / "outside"
    assert everything(outside) == {str(outside / "secret.md"): SECRET.encode()}


def test_links_and_pipes_are_not_listed(linked):
    listed = call(linked, "view", path="/memories").splitlines()
    assert listed == ["/memories/hard.md", "/memories/kept.md"]


def test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere(place):
    outside, moving = place.parent / "outside", place / "moving"
    aside = place.parent / "aside"
    moving.mkdir()
    done = threading.Event()

    def swap():
        while not done.is_set():
            with suppress(OSError):  # the folder may have been made anew meanwhile
                moving.rename(aside)
                moving.symlink_to(outside, target_is_directory=True)
                moving.unlink()
            with suppress(OSError):
                aside.rename(moving)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for number in range(100):
            call(place, "create", path=f"/memories/moving/{number}.md", file_text="mine")
            assert SECRET not in call(place, "view", path="/memories/moving/secret.md")
            call(place, "delete", path="/memories/moving/secret.md")
            call(place, "delete", path=f"/memories/moving/{number}.md")
    finally:
        done.set()
        thread.join()
    assert everything(outside) == {str(outside / "secret.md"): SECRET.encode()}


def test_a_folder_holds_so_much_and_no_more(place):
    huge = call(place, "create", path="/memories/huge.md", file_text="x" * (LARGEST + 1))
    most = f"a file may have at most {LARGEST:,} bytes; use several files"
    assert huge == f"Error: /memories/huge.md: {most}"
    call(place, "create", path="/memories/full.md", file_text="x" * LARGEST)
    grown = call(place, "insert", path="/memories/full.md", insert_line=0, insert_text="x")
    assert "at most" in grown
    (place / "theirs.md").write_text("x" * (LARGEST + 1))
    assert "at most" in call(place, "view", path="/memories/theirs.md")
    for number in range(MOST):
        answer = call(place, "create", path=f"/memories/n/{number}.md", file_text="x")
    assert answer.endswith(f"at most {MOST} files and folders are allowed; delete some")
    assert len(list(place.rglob("*"))) == MOST
    moved = call(place, "rename", old_path="/memories/full.md", new_path="/memories/new/full.md")
    assert moved.endswith("are allowed; delete some")


def test_a_folder_moved_into_another_gets_no_deeper_than_paths_are(place):
    deep = "/memories/" + "/".join("abcd"[:DEEPEST])
    assert call(place, "create", path=deep, file_text="x") == f"Created {deep}."
    moved = call(place, "rename", old_path="/memories/a", new_path="/memories/e/a")
    assert moved == "Error: /memories/e/a: more than 4 names below /memories"
    inside = call(place, "rename", old_path="/memories/a", new_path="/memories/a/b/e")
    assert inside.startswith("Error: ")
    assert call(place, "view", path="/memories/a") == deep


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("{", "Invalid JSON"),
        ("[]", "should be an object"),
        ('{"path": "/memories"}', "discriminator 'command'"),
        ('{"command": "run", "path": "/memories"}', "'view', 'create', 'str_replace'"),
        ('{"command": "create", "path": "/memories/a.md"}', "create.file_text: Field required"),
        ('{"command": "view", "path": 7}', "view.path: Input should be a valid string"),
        ('{"command": "view", "path": "/memories/no.md"}', "there is no such file or folder"),
        ('{"command": "view", "path": "/memories/kept.md", "view_range": [3, 9]}', ""),
        ('{"command": "view", "path": "/memories/kept.md", "view_range": [9, 9]}', "lines 1 to 3"),
        ('{"command": "view", "path": "/memories/kept.md", "view_range": [1]}', "at least 2"),
        ('{"command": "create", "path": "/memories/kept.md", "file_text": ""}', "already"),
        ('{"command": "create", "path": "/memories/kept.md/x", "file_text": ""}', "not a direct"),
        ('{"command": "create", "path": "/memories", "file_text": ""}', "the folder itself"),
        ('{"command": "delete", "path": "/memories"}', "the folder itself"),
        ('{"command": "delete", "path": "/memories/no.md"}', "there is no such file or folder"),
        ('{"command": "rename", "old_path": "/memories", "new_path": "/memories/a"}', "is inside"),
        ('{"command": "rename", "old_path": "/memories/n", "new_path": "/memories/a"}', "no such"),
        ('{"command": "insert", "path": "/memories/kept.md", "insert_line": 9, "insert_text": ""}',
         "expected 0 to 3, the last line"),
        ('{"command": "str_replace", "path": "/memories/kept.md", "old_str": "four"}',
         "does not occur word for word"),
        ('{"command": "str_replace", "path": "/memories/kept.md", "old_str": "t"}', "2 times"),
    ],
)  # fmt: skip
def test_what_a_call_lacks_is_told_in_a_line(arguments, told, place):
    answer = carry_out(Folder(place), NAME, arguments, COMMANDS)
    assert answer.startswith("Error: ") == bool(told)
    assert told in answer
    assert (place / "kept.md").read_text() == "one\ntwo\nthree\n"


def test_a_search_reads_and_writes_nothing(place):
    refused = call(place, "delete", only=READING, path="/memories/kept.md")
    assert refused == "Error: delete: not available now; available: view"
    other = carry_out(Folder(place), "shell", "{}", COMMANDS)
    assert other == "Error: shell: there is no such tool; the only tool is memory"
