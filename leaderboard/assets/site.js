// Makes finished tables sortable and searchable, and keeps what was chosen in the address. Nothing here is needed to read.
"use strict";
(() => {
  const root = document.documentElement;
  const kept = {
    get: () => { try { return localStorage.getItem("alps-theme"); } catch { return null; } },
    set: (theme) => { try { localStorage.setItem("alps-theme", theme); } catch { /* not kept */ } },
  };
  if (["light", "dark"].includes(kept.get())) root.dataset.theme = kept.get();

  const FILTERS = ["kind", "open", "status", "judge"];
  const SHOWN_AT_FIRST = ["coverage", "cost"];
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  function read() {
    const given = new URLSearchParams(location.search);
    const sorts = new Map();
    for (const word of given.getAll("sort")) {
      const [table, key, way] = word.split(".");
      if (table && key && ["ascending", "descending"].includes(way)) sorts.set(table, { key, way });
    }
    const state = { q: given.get("q") ?? "", sorts };
    for (const name of FILTERS) state[name] = given.get(name) ?? "";
    state.cols = given.has("cols") ? given.get("cols").split(",").filter(Boolean) : SHOWN_AT_FIRST;
    return state;
  }

  function address(state) {
    const words = new URLSearchParams();
    for (const name of ["q", ...FILTERS]) if (state[name]) words.set(name, state[name]);
    if ([...state.cols].sort().join() !== [...SHOWN_AT_FIRST].sort().join()) words.set("cols", state.cols.join(","));
    for (const [table, { key, way }] of state.sorts) words.append("sort", `${table}.${key}.${way}`);
    const said = words.toString().replaceAll("%2C", ",");
    return `${location.pathname}${said ? `?${said}` : ""}${location.hash}`;
  }

  function remember(state, replace = false) {
    history[replace ? "replaceState" : "pushState"](null, "", address(state));
    show(state);
  }

  // -- sorting ------------------------------------------------------------------------------------------------------

  function worth(row, column) {
    const cell = row.cells[column];
    const figure = cell?.querySelector("data");
    if (figure) return Number(figure.value);
    const said = cell?.querySelector("time")?.dateTime ?? (cell?.querySelector("a") ?? cell)?.textContent.trim() ?? "";
    return said === "" || said === "–" ? null : said.toLowerCase();
  }

  function compare(one, other, way) {
    if (one === null || other === null) return (one === null) - (other === null);
    const sign = way === "ascending" ? 1 : -1;
    if (typeof one === "number" && typeof other === "number") return sign * (one - other);
    return sign * String(one).localeCompare(String(other), "en", { numeric: true });
  }

  function sort(table, chosen) {
    const heads = all("thead th", table);
    const column = heads.findIndex((head) => head.dataset.key === chosen?.key && head.querySelector("button"));
    heads.forEach((head, n) => {
      if (head.querySelector("button")) head.ariaSort = n === column ? chosen.way : "none";
    });
    const asked = column < 0 ? "" : `${column} ${chosen.way}`;
    if ((table.dataset.sorted ?? "") === asked) return;
    table.dataset.sorted = asked;
    for (const body of table.tBodies) {
      const rows = all("tr:not(.divider)", body);
      rows.forEach((row, n) => { row.dataset.place ??= n; });
      const keys = new Map(rows.map((row) => [row, column < 0 ? null : worth(row, column)]));
      rows.sort((a, b) => compare(keys.get(a), keys.get(b), chosen?.way) || a.dataset.place - b.dataset.place);
      body.append(...rows);
    }
  }

  function makeSortable(table) {
    for (const head of all("thead th[data-key]:not([data-fixed])", table)) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.ariaSort = "none";
      button.addEventListener("click", () => {
        const state = read();
        const first = head.dataset.first ?? "descending";
        const ways = [first, first === "ascending" ? "descending" : "ascending", ""];
        const now = state.sorts.get(table.id);
        const way = ways[now?.key === head.dataset.key ? ways.indexOf(now.way) + 1 : 0];
        if (way) state.sorts.set(table.id, { key: head.dataset.key, way });
        else state.sorts.delete(table.id);
        remember(state);
      });
    }
  }

  // -- filters ------------------------------------------------------------------------------------------------------

  function fits(row, state, words) {
    const facts = row.dataset;
    if (!words.every((word) => (facts.search ?? "").includes(word))) return false;
    return !row.closest("tbody.ranked") || FILTERS.every((name) => !state[name] || facts[name] === state[name]);
  }

  function filter(state) {
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0, there = 0;
    for (const body of all("table[data-sortable] tbody")) {
      let left = 0;
      for (const row of all("tr:not(.divider)", body)) {
        row.hidden = !fits(row, state, words);
        if (!row.hidden) left += 1;
        if (body.matches(".ranked")) { there += 1; shown += !row.hidden; }
      }
      all(".divider", body).forEach((row) => { row.hidden = !left; });
    }
    all(".filters output").forEach((output) => { output.value = shown < there ? `${shown} of ${there} rows` : ""; });
  }

  function fillChoices(form) {
    for (const name of FILTERS) {
      const select = form.elements[name];
      const found = new Set(all(`tbody.ranked tr[data-${name}]`).map((row) => row.dataset[name]).filter(Boolean));
      for (const value of [...found].sort()) select.add(new Option(value, value));
      select.closest("label").hidden = found.size < 2;
    }
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => remember({ ...read(), q: "", kind: "", open: "", status: "", judge: "", cols: SHOWN_AT_FIRST, sorts: new Map() }));
    form.addEventListener("input", (event) => {
      const state = read();
      const given = new FormData(form);
      for (const name of ["q", ...FILTERS]) state[name] = given.get(name) ?? "";
      if (form.elements.cols) state.cols = given.getAll("cols");
      remember(state, event.target.type === "search" && new URLSearchParams(location.search).has("q") && state.q !== "");
    });
  }

  // -- all together -------------------------------------------------------------------------------------------------

  function show(state) {
    for (const name of ["more", ...SHOWN_AT_FIRST]) root.classList.toggle(`hide-${name}`, !state.cols.includes(name));
    for (const form of all(".filters")) {
      for (const name of ["q", ...FILTERS]) if (form.elements[name].value !== state[name]) form.elements[name].value = state[name];
      all("[name=cols]", form).forEach((box) => { box.checked = state.cols.includes(box.value); });
    }
    all("table[data-sortable]").forEach((table) => sort(table, state.sorts.get(table.id)));
    filter(state);
  }

  function makeTheme(button) {
    const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    button.hidden = false;
    button.ariaPressed = String(dark());
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      button.ariaPressed = String(dark());
      kept.set(root.dataset.theme);
    });
  }

  addEventListener("DOMContentLoaded", () => {
    all("button.theme").forEach(makeTheme);
    all("table[data-sortable]").forEach(makeSortable);
    all("form.filters").forEach(fillChoices);
    addEventListener("popstate", () => show(read()));
    show(read());
  });
})();
