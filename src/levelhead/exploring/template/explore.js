(() => {
  "use strict";
  const { one, signed } = drawing;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const root = document.documentElement;
  const given = JSON.parse(one("#given").textContent);
  const facts = given.facts, saved = given.saved;
  const say = (text) => { one("#status").textContent = text; };

  // ---- light and dark

  function setTheme(theme) {
    root.dataset.theme = theme;
    one("#theme").setAttribute("aria-pressed", String(theme === "dark"));
  }
  setTheme(root.dataset.theme);
  one("#theme").addEventListener("click", () => {
    setTheme(root.dataset.theme === "dark" ? "light" : "dark");
    try { localStorage.setItem("levelhead-theme", root.dataset.theme); } catch { /* not every browser keeps it */ }
  });

  // ---- the state, which a link holds

  let state = { sentence: "", counterfactual: null, pair: null, gates: {}, neurons: {}, steering: 0, benchmark: "", preset: "", strength: 1, symmetrized: false, head: null, word: null, of_counterfactual: false, names: true, seed: 0 };
  let answer = null, bands = null, beside = null, why = null, neurons = null, attention = null, jobs = { heads: null, scores: null, fitting: null, benchmark: null, compared: null };

  const changes = () => state.symmetrized || state.steering !== 0 || Object.values(state.neurons).some((gate) => gate !== 1) || Boolean(state.preset && (state.strength > 0 || preset()?.dataset.scales === "no")) || Object.values(state.gates).some((gate) => gate !== 1);
  const preset = () => all(".preset").find((button) => button.dataset.preset === state.preset);
  const gates = () => {
    const known = facts.presets.find((each) => each.name === state.preset);
    return { ...(known && answer && answer.state.preset === state.preset ? effective(known) : {}), ...state.gates };
  };
  const effective = (known) => Object.fromEntries(known.gates.map((head, i) => [head, 1 + state.strength * (known.values[i] - 1)]));

  // ---- one request at a time: while it is under way, changes are noted and asked together afterwards

  const tab = Array.from(crypto.getRandomValues(new Uint32Array(4)), (x) => x.toString(36)).join("");
  let number = 0, busy = false, again = false, timer = 0, waiting = false;

  async function post(path, body, signal) {
    const response = await fetch(path, { signal, method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (response.status === 403) throw new Refused();
    return response;
  }
  class Refused extends Error {}

  async function ask(kind, signal) {
    const response = await post("ask/" + kind, { tab, number: ++number, state }, signal);
    const record = await response.json();
    if (response.status === 202) { waiting = true; watch(); return null; }  // it is fitted first
    if (response.ok) return record;
    if (response.status !== 409) {
      line(record.line);
      if (kind === "answer") clear();
    }
    return null;
  }

  function line(text) {
    one("#line").textContent = text;
    one("#line").hidden = !text;
  }

  function clear() {  // no odds but those of the sentence that stands there
    answer = bands = beside = why = neurons = attention = null;
    if (state.counterfactual === null) one("#counterfactual").value = "";
    drawing.clear();
    drawHeads();
  }

  function changed(delay = 0) {
    if (saved) return;
    delete root.dataset.settled;
    one("#writes")?.setAttribute("aria-busy", "true");
    clearTimeout(timer);
    timer = setTimeout(() => { if (busy) again = true; else chain(); }, delay);
  }

  async function chain() {
    busy = true;
    writing.abort();
    try {
      do {
        again = false;
        const found = await ask("answer");
        if (found) { take(found); line(""); }
        for (const step of found ? [askBeside, askBands, askWhy, askNeurons, askAttention, begin] : []) if (!again) await step();
        root.dataset.ready = "yes";
      } while (again);
      root.dataset.settled = "yes";
    } catch (error) { clear(); lost(error); }
    busy = false;
    askContinuations();
  }

  async function askBeside() { const found = await ask("beside"); if (found) { beside = found.references; draw(); } }
  async function askBands() { const found = await ask("bands"); if (found) { bands = found.bands; draw(); } }
  async function askWhy() { why = await ask("why"); draw(); }
  async function askNeurons() { neurons = await ask("neurons"); draw(); }
  async function askAttention() { attention = await ask("attention"); draw(); }

  // texts take longer, so nothing waits for them: they are given up when anything newer is asked
  let writing = new AbortController();
  async function askContinuations() {
    if (!facts.writes || !answer) return;
    one("#writes").setAttribute("aria-busy", "true");
    writing.abort();
    const { signal } = writing = new AbortController();
    try {
      const found = await ask("continuations", signal);
      if (!found || signal.aborted) return;
      if (one("#seed").textContent !== String(found.seed)) say(`New texts, seed ${found.seed}`);
      history.replaceState(null, "", "#" + found.fragment);
      drawing.continuations(found);
    } catch (error) { if (!signal.aborted && !root.dataset.lost) { clear(); lost(error); } }
  }

  function lost(error) {
    const moved = error instanceof Refused;
    line(moved ? "The server was started anew under another address: open the one that it printed." : "The server does not answer. The page goes on by itself when it is back.");
    root.dataset.lost = "yes";
    setTimeout(async () => {
      try { await post("jobs", { tab }); } catch (still) { lost(still); return; }
      delete root.dataset.lost;
      line("");
      changed();
    }, 700);
  }

  function take(found) {
    // what the change did to other texts is asked anew; what the unmodified model says stays
    if (answer && answer.key !== found.key) beside = beside && beside.map((each) => each && { ...each, person: each.person.slice(0, 1), odds: each.odds.slice(0, 1) });
    answer = found;
    history.replaceState(null, "", "#" + found.fragment);
    draw();
  }

  // ---- what is computed in the background

  let watching = false;
  async function watch() {
    if (watching || saved) return;
    watching = true;
    try {
      do {
        const response = await post("jobs", { tab });
        jobs = await response.json();
        draw();
        if (waiting && (!jobs.fitting || jobs.fitting.finished)) { waiting = false; changed(); }
        await new Promise((resolve) => setTimeout(resolve, 350));
      } while (waiting || [jobs.heads, jobs.fitting, jobs.benchmark].some((job) => job && !job.finished));
    } catch { /* the line says it */ }
    watching = false;
  }

  async function begin() {
    if (!one("#measures").checked || !changes()) return;
    const response = await post("measure", { tab, state });
    if (response.status === 200) { jobs = await response.json(); watch(); }
  }

  // ---- drawing

  function draw() {
    drawing.fitting(jobs.fitting);
    if (!answer) return;
    drawing.sides(answer);
    drawing.odds(answer, bands, beside);
    drawing.bars(answer);
    drawing.marked(answer.counterfactual, answer.state.sentence);
    for (const name of ["recipe", "python", "command"]) one("#as-" + name).textContent = answer.taken[name] || "# nothing is changed";
    if (state.counterfactual === null && document.activeElement !== one("#counterfactual")) { one("#counterfactual").value = answer.counterfactual.text; grow(one("#counterfactual")); }
    one("#swap").hidden = state.counterfactual === null || Boolean(saved);
    drawHeads();
    if (neurons) drawing.neurons(neurons.neurons, state.neurons, turnNeuron);
    drawing.measured(jobs, answer.changed ? answer.key : "");
  }

  function drawHeads() {
    const by = one("#colors").value === "why" || !jobs.scores ? why?.scores : jobs.scores.scores;
    drawing.map(by, gates(), state.head);
    const progress = jobs.heads;
    one("#scoring").textContent = one("#colors").value === "why" ? "d log-odds / d gate of this text, exact, with the change on"
      : jobs.scores ? jobs.scores.source : (progress ? (progress.line || `${progress.label}: ${progress.done} of ${progress.total}`) + ". " : "") + "Until then, colors show what moves this sentence’s odds.";
    const head = state.head, chosen = head && all("#map .head").find((button) => button.dataset.head === head);
    const slider = one("#gate");
    slider.disabled = !chosen || Boolean(saved);
    const gate = head ? gates()[head] ?? 1 : 1;
    if (document.activeElement !== slider) slider.value = gate;
    one("#gate-value").textContent = head ? `${head} at ${+gate.toFixed(2)}` : "none is chosen";
    const at = chosen && [chosen.dataset.layer, chosen.dataset.number];
    one("#info").textContent = chosen ? `Head ${head}: gate ${+gate.toFixed(2)}` + (jobs.scores ? `, bias score ${signed(jobs.scores.scores[at[0]][at[1]])}` : "") +
      (why ? `, moves this log-odds by ${signed(why.scores[at[0]][at[1]])} per unit of its gate` : "") : "Choose a head: click it, or move there by arrow keys.";
    if (why) {
      const ranked = why.scores.flatMap((row, layer) => row.map((score, number) => [Math.abs(score), score, `${layer + 1}-${number + 1}`])).sort((a, b) => b[0] - a[0]);
      one("#moves").textContent = "Heads that move these odds most: " + ranked.slice(0, 4).map(([, score, name]) => `${name} (${signed(score, 2)})`).join(", ");
      if (attention) {
        const [layer, number] = (head || ranked[0][2]).split("-").map((x) => x - 1);
        drawing.arcs(attention, layer, number, (start) => { state.word = start; changed(); });
      }
    }
    for (const button of all(".preset")) button.setAttribute("aria-pressed", String(button.dataset.preset === state.preset));
    one("#symmetrized").setAttribute("aria-pressed", String(state.symmetrized));
    one("#strength").disabled = Boolean(saved) || preset()?.dataset.scales !== "yes";
    one("#strength-value").textContent = String(+state.strength.toFixed(2));
    one("#steering-value").textContent = state.steering ? `${+state.steering.toFixed(1)} ×` : "off";
  }

  function fill() {
    one("#sentence").value = state.sentence;
    one("#counterfactual").value = state.counterfactual ?? answer?.counterfactual.text ?? "";
    one("#pair").value = String(Math.max(0, facts.pairs.findIndex((pair) => state.pair && pair.join() === state.pair.join())));
    one("#strength").value = state.strength;
    one("#steering").value = state.steering;
    one("#benchmark").value = state.benchmark || facts.benchmarks[0].name;
    one("#about").value = state.of_counterfactual ? "counterfactual" : "";
    if (one("#names")) one("#names").checked = state.names;
    for (const box of [one("#sentence"), one("#counterfactual")]) grow(box);
  }

  // ---- what people do

  const grow = (box) => { box.style.height = "auto"; box.style.height = Math.min(240, box.scrollHeight + 4) + "px"; };
  one("#sentence").addEventListener("input", (event) => { state.sentence = event.target.value; state.word = null; bands = beside = null; grow(event.target); changed(60); });
  one("#counterfactual").addEventListener("input", (event) => { state.counterfactual = event.target.value; bands = beside = null; grow(event.target); changed(60); });
  one("#swap").addEventListener("click", () => { state.counterfactual = null; bands = beside = null; if (answer) one("#counterfactual").value = answer.counterfactual.text; changed(); });
  one("#names")?.addEventListener("change", (event) => { state.names = event.target.checked; bands = beside = null; changed(); });
  one("#pair").addEventListener("change", (event) => { state.pair = facts.pairs[Number(event.target.value)]; bands = beside = null; changed(); });
  one("#about").addEventListener("change", (event) => { state.of_counterfactual = event.target.value === "counterfactual"; state.word = null; changed(); });
  one("#colors").addEventListener("change", draw);
  one("#symmetrized").addEventListener("click", () => { state.symmetrized = !state.symmetrized; draw(); changed(); });
  one("#strength").addEventListener("input", (event) => { state.strength = Number(event.target.value); draw(); changed(60); });
  one("#gate").addEventListener("input", (event) => turn(state.head, Number(event.target.value)));
  one("#steering").addEventListener("input", (event) => { state.steering = Number(event.target.value); draw(); changed(60); });
  one("#benchmark").addEventListener("change", (event) => { state.benchmark = event.target.value === facts.benchmarks[0].name ? "" : event.target.value; changed(); });
  one("#again")?.addEventListener("click", () => { state.seed += 1; if (!busy) askContinuations(); });
  one("#neurons")?.addEventListener("focusout", () => setTimeout(draw));
  one("#measures").addEventListener("change", () => changed());
  one("#reset").addEventListener("click", () => { Object.assign(state, { gates: {}, neurons: {}, steering: 0, preset: "", strength: 1, symmetrized: false }); fill(); draw(); changed(); });
  for (const button of all(".preset")) {
    button.addEventListener("click", () => {
      Object.assign(state, { preset: state.preset === button.dataset.preset ? "" : button.dataset.preset, strength: 1 });
      one("#strength").value = 1;
      draw();
      changed();
    });
  }

  function turn(head, value) {
    if (!head || saved) return;
    const gate = Math.round(Math.max(0, Math.min(4, value)) * 100) / 100;
    state.gates = { ...state.gates, [head]: gate };
    if (gate === 1 && !(facts.presets.find((each) => each.name === state.preset)?.gates.includes(head))) delete state.gates[head];
    say(`Head ${head}: gate ${gate}`);
    draw();
    changed(40);
  }

  function turnNeuron(neuron, value) {
    if (saved) return;
    const { [neuron]: before, ...others } = state.neurons;
    state.neurons = value === 1 ? others : { ...others, [neuron]: value };
    say(`Neuron ${neuron}: gate ${value}`);
    draw();
    changed(40);
  }

  const buttons = all("#map .head");
  buttons[0].tabIndex = 0;
  function choose(button) {
    for (const each of buttons) each.tabIndex = each === button ? 0 : -1;
    state.head = button.dataset.head;
    draw();
  }
  for (const button of buttons) {
    button.addEventListener("focus", () => choose(button));
    button.addEventListener("click", () => { choose(button); turn(button.dataset.head, (gates()[button.dataset.head] ?? 1) === 0 ? 1 : 0); });
  }
  one("#map").addEventListener("keydown", (event) => {
    const head = document.activeElement?.dataset.head;
    if (!head) return;
    const at = buttons.indexOf(document.activeElement);
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -facts.heads, ArrowDown: facts.heads, Home: -(at % facts.heads), End: facts.heads - 1 - (at % facts.heads) };
    const steps = { "+": 0.25, "=": 0.25, "-": -0.25 };
    if (event.key in moves) buttons[at + moves[event.key]]?.focus();
    else if (event.key in steps) turn(head, (gates()[head] ?? 1) + steps[event.key]);
    else return;
    event.preventDefault();
  });

  // ---- taking it along

  async function copy(text, button) {
    try { await navigator.clipboard.writeText(text); } catch {  // without permission the old way still works
      const box = document.createElement("textarea");
      box.value = text;
      document.body.append(box);
      box.select();
      document.execCommand("copy");
      box.remove();
    }
    const name = button.textContent;
    button.textContent = "Copied";
    say("Copied");
    setTimeout(() => { button.textContent = name; }, 1200);
  }
  for (const button of all("button.copy")) button.addEventListener("click", () => copy(one("#as-" + button.dataset.of).textContent, button));
  one("#link").addEventListener("click", (event) => copy(location.href, event.target));
  one("#save").addEventListener("click", async () => {
    let response;
    try { response = await post("save", { tab, state }); } catch (error) { lost(error); return; }
    if (response.status !== 200) { line((await response.json()).line); return; }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = "levelhead-explore.html";
    link.click();
    URL.revokeObjectURL(link.href);
    say("Saved levelhead-explore.html");
  });

  // ---- beginning

  function follow() {  // the link that the page was opened with
    try {
      if (location.hash.length > 1) state = { ...state, ...JSON.parse(decodeURIComponent(location.hash.slice(1))) };
    } catch { line("The link is damaged: copy it again."); }
    fill();
    changed();
  }

  if (saved) {
    ({ answer, why, neurons, attention, jobs } = saved);
    if (saved.continuations) drawing.continuations(saved.continuations);
    bands = saved.bands.bands;
    beside = saved.beside.references;
    state = answer.state;
    fill();
    one("#colors").value = "why";
    for (const control of all("textarea, #pair, #names, #about, #gate, #strength, #steering, #benchmark, .preset, #symmetrized, #reset, #measures, #link, #save")) control.disabled = true;
    draw();
    for (const control of all("#neurons button, #neurons input")) control.disabled = true;
    root.dataset.ready = root.dataset.settled = "yes";
  } else {
    state.sentence = facts.start;
    follow();
    watch();
  }
  addEventListener("hashchange", follow);
})();
