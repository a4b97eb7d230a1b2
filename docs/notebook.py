"""The notebook of the documentation: execute it, and show it as a page.

    python docs/notebook.py [FILE]

executes notebook.ipynb in an empty folder with the package that is installed, and writes it with
its outputs to FILE, or back to where it is. MkDocs takes this module as a hook, which makes a page
of the notebook: its outputs are shown as they are kept, nothing is executed.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).with_name("notebook.ipynb")
PAGE = "notebook.md"


def execute(target: Path) -> None:
    """Run every cell, and write the notebook with what they give to `target`."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    kernel = dict(notebook.metadata.kernelspec)
    with tempfile.TemporaryDirectory() as folder:
        private = {"ALPS_CACHE": "off", "ALPS_CALIBRATIONS": folder, "IPYTHONDIR": folder}
        private["ALPS_PROGRESS"] = "off"  # its lines have the time of day
        os.environ.update(private)
        NotebookClient(
            notebook,
            timeout=300,
            record_timing=False,  # when it ran would make every execution another file
            resources={"metadata": {"path": folder}},
        ).execute()
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        if "text/html" in output.get("data", {}):
            output.data.pop("text/plain", None)  # nobody is shown it
    notebook.metadata = {"kernelspec": kernel}  # without the version of this Python
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    target.write_text(f"{text}\n", encoding="utf-8")


def as_markdown(notebook: dict[str, Any]) -> str:
    """Return a page: text and code of the cells, each output as HTML or as it is printed."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_output(output) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "text/html" in data:
        return "".join(data["text/html"])
    return "```\n" + "".join(data["text/plain"]).rstrip() + "\n```"


def on_files(files: Any, config: Any) -> Any:
    """Add the page of the notebook to those that MkDocs builds."""
    from mkdocs.structure.files import File

    text = as_markdown(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    files.append(File.generated(config, PAGE, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to the notebook to its page."""
    return markdown.replace(f"({NOTEBOOK.name})", f"({PAGE})")


if __name__ == "__main__":
    execute(Path(sys.argv[1]) if len(sys.argv) > 1 else NOTEBOOK)
