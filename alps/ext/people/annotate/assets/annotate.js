// Keys, and labels that are saved without leaving the page. Without it the page works by its forms.
"use strict";
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const form = () => $("main form[action$='/label']");
  const RETRY = 500;
  let typed = "";
  let marked = 0;
  let saving = false;

  const tell = (text) => { $("#said").textContent = text; };
  const isOpen = (part) => !part.hidden;
  const questions = () => (form() ? all("fieldset", form()).filter(isOpen) : []);
  const verdict = () => $("input[name=verdict]:checked", form() || document)?.value ?? "";

  // What is asked depends on the verdict: nothing of a memory that is rejected.
  function fit() {
    if (!form()) return;
    const said = verdict();
    let off = false;
    for (const part of all("fieldset", form())) {
      part.hidden = part.dataset.unless.split(" ").includes(said) && said !== "";
      off = off || part.hidden;
    }
    for (const part of all("p.text", form())) part.hidden = off || (part.dataset.text === "value" && said === "keep");
    const chosen = $("input[name=evidence]:checked", form())?.value;
    for (const line of all("li[data-turn]")) line.classList.toggle("evidence", line.dataset.turn === chosen);
    mark(marked);
  }

  function mark(place) {
    const open = questions();
    marked = Math.max(0, Math.min(place, open.length - 1));
    open.forEach((part, n) => part.classList.toggle("marked", n === marked));
    if (open.length > 1 && marked) open[marked].scrollIntoView({ block: "nearest" });
  }

  function answered(part) { return $("input:checked", part) !== null; }

  function choose(input) {
    input.checked = true;
    tell(`${input.closest("fieldset").querySelector("legend").textContent} ${input.parentElement.textContent.trim()}`);
    fit();
    const open = questions();
    const next = open.findIndex((part, n) => n > marked && !answered(part));
    if (form().dataset.single === "yes") { save(); return; }
    mark(next < 0 ? open.length - 1 : next);
    if (input.name === "verdict" && ["edit", "add"].includes(input.value)) write($("textarea[name=value]", form()));
  }

  function write(text) {
    text.focus();
    text.setSelectionRange(text.value.length, text.value.length);
  }

  function press(key) {
    const other = $(`button.take[data-key="${CSS.escape(key)}"]`);
    if (other) { fill(JSON.parse(other.dataset.fields)); return true; }
    const part = questions()[marked];
    if (!part) return false;
    const codes = all("input[data-code]", part);
    const begun = codes.filter((input) => input.dataset.code.startsWith(typed + key));
    if (!begun.length) { typed = ""; return false; }
    typed += key;
    const hit = begun.find((input) => input.dataset.code === typed);
    if (hit) { typed = ""; choose(hit); } else tell(`${typed} …`);
    return true;
  }

  async function save() {
    const current = form();
    if (!current || saving) return;
    saving = true;
    const body = new URLSearchParams(new FormData(current));
    for (;;) {
      try {
        const answer = await fetch(current.action, { method: "POST", body, headers: { "X-Requested-With": "fetch" } });
        const text = await answer.text();
        if (answer.ok) show(text); else tell(text);
        break;
      } catch {
        // The server may be started again: the label waits here, and is written once.
        tell("Not saved yet: the server is not responding. Retrying …");
        await new Promise((resolve) => setTimeout(resolve, RETRY));
      }
    }
    saving = false;
  }

  function show(text) {
    const page = new DOMParser().parseFromString(text, "text/html");
    for (const part of ["main", "header"]) $(part).replaceWith(page.querySelector(part));
    document.title = page.title;
    typed = "";
    begin();
    const elsewhere = $(".elsewhere h2")?.textContent;
    tell(`${$(".fault") ? "" : "Saved. "}${elsewhere ? `${elsewhere}. ` : ""}${$("#what").textContent}`);
  }

  function begin() {
    marked = 0;
    const open = form() ? all("fieldset", form()) : [];
    const first = open.findIndex((part) => !answered(part));
    marked = first < 0 ? 0 : first;
    fit();
    const writing = form() && !open.length ? $("textarea", form()) : null;
    if (writing) writing.focus(); else $("main").focus({ preventScroll: true });
    window.scrollTo(0, 0);
    count();
  }

  function count() {
    for (const note of all("[data-words]")) {
      const words = document.getElementById(note.dataset.words).value.split(/\s+/).filter(Boolean).length;
      note.textContent = `${words} word${words === 1 ? "" : "s"}`;
    }
  }

  function fill(fields) {
    for (const [name, value] of Object.entries(fields)) {
      for (const input of all(`[name="${name}"]`, form())) {
        if (input.type === "radio") input.checked = input.value === value; else input.value = value;
      }
    }
    fit();
    if (form().dataset.single === "yes") save(); else mark(questions().length - 1);
  }

  document.addEventListener("submit", (event) => {
    if (event.target === form()) { event.preventDefault(); save(); }
  });
  document.addEventListener("input", count);
  document.addEventListener("change", fit);
  document.addEventListener("click", (event) => {
    const line = event.target.closest("li[data-turn]");
    const input = event.target.closest("label")?.querySelector("input[data-code]");
    // A pointer chooses and saves; arrow keys among the answers only choose.
    if (event.detail && input && form().dataset.single === "yes") { input.checked = true; save(); }
    if (event.target.closest("#help")) $("#keys").showModal();
    const other = event.target.closest("button.take");
    if (other) fill(JSON.parse(other.dataset.fields));
    if (line && form()) quote(line);
  });

  function quote(line) {
    const turn = $(`input[name=evidence][value="${line.dataset.turn}"]`, form());
    if (!turn || turn.closest("fieldset").hidden) return;
    turn.checked = true;
    const words = String(getSelection()).trim();
    if (words && line.textContent.includes(words)) $("textarea[name=quote]", form()).value = words;
    fit();
  }

  document.addEventListener("keydown", (event) => {
    const writing = event.target.matches("textarea, input:not([type=radio])");
    if (event.key === "Escape" && writing) { event.target.blur(); $("main").focus(); return; }
    if (event.key === "Enter" && writing && (event.ctrlKey || event.metaKey)) { event.preventDefault(); save(); return; }
    if (writing || event.ctrlKey || event.metaKey || event.altKey || $("#keys").open) return;
    if (event.key === "?") $("#keys").showModal();
    else if (event.key === "Enter" && !event.target.closest("a, button, summary")) save();
    else if (event.key === "Backspace" && $("a[rel=prev]")) $("a[rel=prev]").click();
    else if (event.key === "ArrowDown" && !event.target.matches("input, ol")) mark(marked + 1);
    else if (event.key === "ArrowUp" && !event.target.matches("input, ol")) mark(marked - 1);
    else if (event.key.length === 1 && press(event.key.toLowerCase())) event.preventDefault();
    else return;
    event.preventDefault();
  });

  document.addEventListener("DOMContentLoaded", begin);
})();
