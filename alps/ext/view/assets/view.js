// Search, filters and records that are fetched in parts. Texts of the index go in as text alone.
"use strict";
const $ = (id) => document.getElementById(id);
const PAGE = 100;
const fetched = new Map();
const waiting = new Map();
let index = { runs: [], rows: [], chunk: 1 };
let haystacks = [];
let found = [];
let first = 0;
let chosen = -1;

function alpsIndex(given) {
  const before = chosen < 0 ? null : index.rows[chosen];
  index = given;
  haystacks = index.rows.map((row) => `${row[1]}\n${row[5]}\n${row[4]}`.toLowerCase());
  fetched.clear();
  options("track", [...new Set(index.rows.map((row) => row[0]))]);
  options("outcome", [...new Set(index.rows.flatMap((row) => row[2]))].filter(Boolean));
  orders();
  tellRuns();
  chosen = before === null ? -1
    : index.rows.findIndex((row) => row[0] === before[0] && row[1] === before[1]);
  filter();
  if (before === null && !fromAddress() && found.length) choose(found[0], { focus: false, own: false });
}

function alpsRecords(number, records) {
  fetched.set(number, records);
  waiting.get(number)?.();
  waiting.delete(number);
}

function element(name, text, style) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (style) made.className = style;
  return made;
}

const metricOf = (track) => index.runs.map((run) => run.metrics[track]).find(Boolean);

// Of five steps from the worst to the best value; the number stands in it, so colour tells nothing alone.
function tint(track, score) {
  if (score === null) return "";
  const [worst, best] = metricOf(track)?.ends ?? [0, 1];
  const share = Math.min(1, Math.max(0, (score - worst) / (best - worst)));
  return ` tint-${Math.round(4 * share)}`;
}

function options(id, names) {
  const select = $(id);
  const kept = select.value;
  select.replaceChildren(select.options[0], ...names.map((name) => new Option(name, name)));
  select.value = names.includes(kept) ? kept : "";
}

function orders() {
  const apart = [...$("order").options].find((one) => one.value === "apart");
  if (index.runs.length > 1 && !apart) {
    $("order").add(new Option("largest difference first", "apart"));
    $("order").value = "apart";
  }
}

function letter(run) {
  const made = element("span", index.runs[run].letter, `letter colour-${run % 6}`);
  made.title = `${index.runs[run].model} (${index.runs[run].name})`;
  return made;
}

function tellRuns() {
  $("runs").replaceChildren(...index.runs.map((run, place) => {
    const line = element("li");
    line.append(letter(place), element("span", run.model), element("span", ` ${run.name}, judged by ${run.judge}`, "note"));
    return line;
  }));
}

const mean = (scores) => {
  const known = scores.filter((score) => score !== null);
  return known.length ? known.reduce((sum, score) => sum + score, 0) / known.length : null;
};
const spread = (scores) => {
  const known = scores.filter((score) => score !== null);
  return known.length > 1 ? Math.max(...known) - Math.min(...known) : -1;
};

function filter() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const track = $("track").value;
  const outcome = $("outcome").value;
  found = [];
  for (let place = 0; place < index.rows.length; place += 1) {
    const row = index.rows[place];
    if (track && row[0] !== track) continue;
    if (outcome && !row[2].includes(outcome)) continue;
    if (words.every((word) => haystacks[place].includes(word))) found.push(place);
  }
  sort($("order").value);
  first = Math.max(0, Math.floor(found.indexOf(chosen) / PAGE) * PAGE);
  draw();
}

function sort(order) {
  if (order === "data") return;
  const rank = new Map(found.map((place) => {
    const scores = index.rows[place][3];
    return [place, order === "apart" ? -spread(scores) : mean(scores)];
  }));
  const sign = order === "high" ? -1 : 1;
  // Records without a score come last in either order.
  found.sort((a, b) => {
    const [one, other] = [rank.get(a), rank.get(b)];
    if (one === null || other === null) return (one === null) - (other === null) || a - b;
    return sign * (one - other) || a - b;
  });
}

const shownScore = (score) => (score === null ? "–" : score.toFixed(3).replace(/^0\./, "."));

function draw() {
  const total = `${index.rows.length.toLocaleString("en")} ${index.rows.length === 1 ? "record" : "records"}`;
  $("count").textContent = found.length === index.rows.length ? total
    : found.length ? `${found.length.toLocaleString("en")} of ${total}` : "No record matches.";
  $("clear").hidden = found.length > 0 || !index.rows.length;
  $("list").start = first + 1;
  $("list").replaceChildren(...found.slice(first, first + PAGE).map((place) => {
    const [track, id, outcomes, scores, , opening] = index.rows[place];
    const button = element("button", undefined, "line");
    button.type = "button";
    if (place === chosen) button.setAttribute("aria-current", "true");
    if (opening) button.append(element("bdi", opening, "words"));
    button.append(element("span", id, "id"));
    if ($("track").options.length > 2) button.append(element("span", track, "note"));
    const figures = element("span", undefined, "figures");
    scores.forEach((score, run) => {
      if (index.runs.length > 1) figures.append(letter(run));
      const state = outcomes[run];
      figures.append(element("span", shownScore(score), `number${tint(track, score)}`));
      if (state && state !== "ok") figures.append(element("span", state, "badge"));
    });
    button.append(figures);
    button.onclick = () => choose(place);
    const item = element("li");
    item.append(button);
    return item;
  }));
  $("back").hidden = first === 0;
  $("more").hidden = first + PAGE >= found.length;
}

function part(number) {
  if (fetched.has(number)) return Promise.resolve();
  return new Promise((done, failed) => {
    waiting.set(number, done);
    const script = element("script");
    script.src = `records/${number}.js`;
    script.onload = () => script.remove();
    script.onerror = failed;
    document.head.append(script);
  });
}

// The first record is open without being chosen: the address and what is printed are those of the list.
async function choose(place, { focus = true, own = true } = {}) {
  chosen = place;
  const [track, id, outcomes] = index.rows[place];
  if (own) history.replaceState(null, "", `#${encodeURIComponent(`${track}/${id}`)}`);
  document.body.toggleAttribute("data-chosen", own);
  draw();
  const number = Math.floor(place / index.chunk);
  const panel = $("shown");
  try {
    await part(number);
  } catch {
    panel.replaceChildren(element("p", `The file records/${number}.js is missing. To create it, repeat alps view.`, "note"));
    return;
  }
  if (chosen !== place) return;
  panel.replaceChildren(element("h2", `${track} · ${id}`));
  const cards = element("div", undefined, "cards");
  fetched.get(number)[place % index.chunk].forEach((html, run) => {
    if (!outcomes[run]) return;
    const card = element("div");
    const head = element("p", undefined, "whose");
    head.append(letter(run), element("span", index.runs[run].model));
    // Written by the same templates as the report, which escape every text of a model or a user.
    card.insertAdjacentHTML("beforeend", html);
    card.prepend(head);
    cards.append(card);
  });
  panel.append(cards);
  if (focus && innerWidth < 900) panel.scrollIntoView();
}

function step(by) {
  const at = found.indexOf(chosen);
  const next = at < 0 ? first : Math.min(found.length - 1, Math.max(0, at + by));
  if (!found.length) return;
  first = Math.floor(next / PAGE) * PAGE;
  choose(found[next], { focus: false });
  document.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

function fromAddress() {
  let wanted = location.hash.slice(1);
  try { wanted = decodeURIComponent(wanted); } catch { /* typed by hand: it leads nowhere */ }
  const place = index.rows.findIndex((row) => `${row[0]}/${row[1]}` === wanted);
  if (place >= 0) choose(place, { focus: false });
  return place >= 0;
}

$("filters").addEventListener("input", filter);
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("clear").onclick = () => {
  ["search", "track", "outcome"].forEach((id) => { $(id).value = ""; });
  filter();
  $("search").focus();
};
$("back").onclick = () => { first -= PAGE; draw(); };
$("more").onclick = () => { first += PAGE; draw(); };
addEventListener("hashchange", fromAddress);
addEventListener("keydown", (event) => {
  if (event.target.closest("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "/") { event.preventDefault(); $("search").focus(); }
});

// Of a served page: when the runs went on, the index is loaded once more.
if (document.body.dataset.live) {
  setInterval(async () => {
    const answer = await fetch("version").catch(() => null);
    const now = answer?.ok ? Number(await answer.text()) : index.version;
    if (now !== index.version) {
      const script = element("script");
      script.src = `index.js?${now}`;
      script.onload = () => script.remove();
      document.head.append(script);
    }
  }, 3000);
}
