"""Rows as CSV for spreadsheets, none of whose cells is read as a formula."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import regex

from alps.show.formatting import visible

# By its properties, and the two symbols whose glyph is blank. Not every one is of category C: the
# Hangul fillers are letters, variation selectors are marks.
INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{C}\u2800\U0001D159]")
_SIGN = "[=＝﹦⁼₌+＋﹢⁺₊﬩\\-－﹣@＠﹫]"
_UNSEEN = rf'(?:[\s"]|{INVISIBLE.pattern})*'
_FORMULA = regex.compile(rf"[\t\r\n]|{_UNSEEN}{_SIGN}")
_FORMULA_INSIDE = regex.compile(rf"[;|\t\r\n]{_UNSEEN}\K(?={_SIGN})")


def plain_cell(value: object) -> str:
    """Return a cell of a CSV file; an apostrophe keeps spreadsheets from reading a formula."""
    # Spreadsheets look past white space, and take wide and small forms of the signs for the signs.
    # A sign after `;`, a tab or `|` begins a cell where a spreadsheet parts cells there, as many
    # countries' do: quotes around the whole cell help no more then.
    if value is None:
        return ""
    if not isinstance(value, str):
        return json.dumps(value)
    text = _FORMULA_INSIDE.sub("'", visible(value))
    return f"'{text}" if _FORMULA.match(text) else text


def csv_of(rows: Sequence[Mapping[str, Any]], columns: Iterable[str] = ()) -> str:
    """Return rows as CSV, in the columns of all of them; `columns` are there without rows, too."""
    names = dict.fromkeys(columns)
    for row in rows:
        names |= dict.fromkeys(row)
    out = io.StringIO()
    # All cells are quoted, as spreadsheets may part cells at ';' or a tab, too.
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(map(plain_cell, names))
    for row in rows:
        writer.writerow([plain_cell(row.get(name)) for name in names])
    return out.getvalue()
