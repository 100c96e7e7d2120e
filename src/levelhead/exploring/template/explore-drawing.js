/* What a page shows, drawn from plain records; nothing here asks a server. Texts are set as text, never as markup. */
const drawing = (() => {
  "use strict";
  const one = (selector) => document.querySelector(selector);
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const short = (x) => (x >= 99.5 ? x.toFixed(0) : x >= 9.95 ? x.toFixed(0) : x.toFixed(1));
  const ratio = (x) => (x > 20 ? "> 1e8" : short(Math.exp(x))) + "\u00a0:\u00a01";  // of log-odds of 0 or more
  const percent = (p) => (p >= 0.0995 ? (100 * p).toFixed(0) : p >= 0.00095 ? (100 * p).toFixed(1) : "< 0.1") + " %";
  const signed = (x, digits = 3) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits);
  const between = (interval) => (interval ? " [" + interval.map((x) => signed(x)).join(", ") + "]" : "");

  // ---- the sentence with what was swapped and what was not

  function marked(counterfactual, sentence) {
    const box = one("#marked"), list = one("#problems");
    const pieces = [];
    let at = 0;
    for (const { start, end, note } of counterfactual.problems) {
      pieces.push(sentence.slice(at, start), make("u", { title: note }, sentence.slice(start, end)));
      at = end;
    }
    pieces.push(sentence.slice(at));
    box.replaceChildren(...(counterfactual.problems.length ? pieces : []));
    const said = counterfactual.problems.map(({ start, end, note }) => make("li", {}, make("bdi", {}, sentence.slice(start, end)), ": " + note));
    if (!counterfactual.changed.length) said.push(make("li", {}, "Nothing in it can be exchanged. Write a counterfactual of your own."));
    if (counterfactual.traits.length) said.push(make("li", {}, "Kept on purpose, as words for a trait: " + counterfactual.traits.join(", ")));
    list.replaceChildren(...said);
  }

  // ---- odds, on one axis for all sentences

  const sides = (answer) => one("#sides").replaceChildren(...(answer.sides.length > 1 ? answer.sides : []).map((name, i) => make("li", {}, make("i", { class: "side-" + color(answer, i) }), make("bdi", {}, name))));
  const color = (answer, i) => (i === 0 ? 0 : answer.changed && i === 1 ? 1 : 2);
  const LIMIT = Math.log(1000);  // where the axis ends
  const place = (x) => 50 + (48 * Math.max(-LIMIT, Math.min(LIMIT, x))) / LIMIT;
  const at = (element, x) => { element.style.left = place(x) + "%"; return element; };
  const leaning = (x, pair) => (Math.abs(x) < 0.005 ? "even" : (x > 0 ? pair[0] : pair[1]) + "\u00a0" + ratio(Math.abs(x)));
  const factor = (x) => (Math.abs(x) > 20 ? (x > 0 ? "> 1e8" : "< 1e-8") : x >= 0 ? short(Math.exp(x)) : Math.exp(x).toPrecision(2));
  const quoted = (words) => words.map((word) => "“" + word + "”").join(" and ");

  function odds(answer, bands, beside) {
    const { pair, stated } = answer, same = answer.texts[0].text === answer.texts[1].text;
    const values = [0, 1].map((text) => answer.texts[text].odds.map((each) => each.log_odds));
    values.push(values[0].map((x, i) => x - values[1][i]));
    const names = ["sentence", "counterfactual", "odds ratio"];
    const said = values.map((own, i) => own.map((x) => (i < 2 ? leaning(x, pair) : factor(x))));
    const rows = (same ? [0] : [0, 1, 2]).map((i) => {
      const band = bands && bands[i], other = beside && beside[i];
      const note = i === 2 ? ratioNote(stated, band) : stated[i] ? agreement(stated[i], values[i][0], pair) : finding(answer, values[i], band, other);
      return lane([names[i], said[i].join(" → "), note], answer, values[i], band, other);
    });
    const ticks = make("div", { class: "ticks", "aria-hidden": "true" });
    for (const [power, word] of [[-3, pair[1] + " "], [-1, ""], [0, ""], [1, ""], [3, pair[0] + " "]]) {
      ticks.append(at(make("span", {}, power ? word + 10 ** Math.abs(power) + " : 1" : "even"), power * Math.log(10)));
    }
    one("#odds").replaceChildren(...rows, ticks);
    one("#odds-pair").textContent = pair.join(" : ");
    one("#effect").replaceChildren(...rows.flatMap((row, i) => [make("span", {}, names[i] + " ", make("b", {}, said[i].join(" → ")))]));
    one("#spoken").textContent = rows.map((row, i) => names[i] + ": " + answer.sides.map((side, k) => side + " " + said[i][k]).join(", ")).join("; ");
  }

  const agreement = ({ words, expected }, x, pair) => {
    if (!expected) return "agreement: the text says " + quoted(words) + ", so either word may be expected";
    const preferred = x > 0 ? pair[0] : pair[1];
    return "agreement: the text says " + quoted(words) + ", so “" + expected + "” is expected" + (preferred === expected ? "" : "; the model prefers “" + preferred + "”");
  };

  const verdict = (band) => (band.p < 0.05 ? "" : "not ") + "significantly different from null models (p " + (band.p < 0.001 ? "< 0.001" : "= " + band.p.toPrecision(2)) + ", " + band.null_models + " null models)";

  function finding(answer, values, band, other) {
    const parts = [];
    if (other) {
      const count = other.others.length, both = (say) => [...new Set(other.person.map((x, i) => say(i)))].join(" → ");
      const range = (i) => leaning(Math.min(...other.odds[i]), answer.pair) + " to " + leaning(Math.max(...other.odds[i]), answer.pair);
      const rank = (i) => { const below = other.odds[i].filter((x) => x < values[i]).length; return below === count ? "above all" : below ? "above " + below : "below all"; };
      parts.push("a person: " + both((i) => leaning(other.person[i], answer.pair)), count + " other occupations range from " + both(range) + "; “" + other.occupation + "” is " + both(rank) + " of them");
    }
    if (band) parts.push(verdict(band));
    return "finding: nothing states a " + one("#odds").dataset.states + parts.map((part) => "; " + part).join("");
  }

  function ratioNote(stated, band) {
    const words = stated.flatMap((each) => (each ? each.words : []));
    if (words.length) return "agreement: the effect of " + (stated[0] && stated[1] ? quoted(stated[0].words) + " instead of " + quoted(stated[1].words) : "stating " + quoted(words));
    return "finding: sentence over counterfactual" + (band ? "; " + verdict(band) : "");
  }

  function lane([name, odds, note], answer, values, band, other) {
    const [kind, ...rest] = note.split(":");
    const track = make("div", { class: "lane", "aria-hidden": "true" });
    if (band) {
      const gray = at(make("i", { class: "band" }), band.low);
      gray.style.width = place(band.high) - place(band.low) + "%";
      track.append(gray);
    }
    track.append(at(make("i", { class: "even" }), 0));
    if (other) other.person.forEach((person, i) => {
      track.append(...other.odds[i].map((x) => at(make("i", { class: "other side-" + i }), x)), at(make("i", { class: "person side-" + i }), person));
    });
    values.forEach((x, i) => track.append(at(make("i", { class: "point side-" + color(answer, i) + (Math.abs(x) > LIMIT ? (x > 0 ? " beyond" : " beyond below") : ""), "data-side": i, "data-log-odds": x }), x)));
    const line = make("p", {}, make("strong", {}, name), " " + odds + " ", make("span", { class: "chip " + kind }, kind));
    return make("div", { class: "odd", "data-row": name }, line, track, make("p", { class: "said" }, rest.join(":").trim()));
  }

  // ---- words

  function bars(answer) {
    const largest = Math.max(1e-9, ...answer.texts.flatMap((text) => text.bars.flatMap((bar) => bar.p.map((p) => p || 0))));
    const same = answer.texts[0].text === answer.texts[1].text;
    one("#bars").replaceChildren(...answer.texts.slice(0, same ? 1 : 2).map((text, i) => {
      const table = make("table", { class: "words-table" }, make("caption", {}, ["sentence", "counterfactual"][i]));
      for (const bar of text.bars) {
        const cell = make("td", {});
        bar.p.forEach((p, side) => {
          const track = make("span", { class: "track" }), fill = make("i", { class: "side-" + color(answer, side) });
          fill.style.width = (100 * (p || 0)) / largest + "%";
          track.append(fill, make("span", {}, p === null ? "–" : percent(p)));
          cell.append(track);
        });
        table.append(make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, bar.word)), cell));
      }
      return table;
    }));
  }

  // ---- what the model writes

  const LEAD = 90;  // characters of a sentence that stand before a text

  function continuations(found) {
    const box = one("#writes"), [sentence, other] = found.prompts.map(plain), same = sentence === other;
    box.replaceChildren(...found.sides.flatMap(({ side, texts, line }, i) => [
      ...(found.sides.length > 1 ? [make("h3", {}, make("i", { class: "side-" + i }), make("bdi", {}, side))] : []),
      line ? make("p", { class: "note" }, line) : make("ol", { class: "texts" }, ...texts[0].map((_, n) => make("li", { class: "pair" },
        ...texts.slice(0, same ? 1 : 2).map((own, k) => text(["sentence", "counterfactual"][k], found.prompts[k], own[n]))))),
    ]));
    one("#seed").textContent = found.seed;
    box.setAttribute("aria-busy", "false");
  }

  const plain = (pieces) => pieces.map((piece) => piece.text).join("");
  const piece = ({ text, side }) => (side ? make("mark", { class: side }, text) : text);

  function text(heading, prompt, { pieces, ended }) {
    const end = make("small", {}, ended ? (pieces.length ? " (ends)" : " (ends here)") : "…");
    const body = make("p", { dir: "auto" }, make("span", { class: "given" }, ...tail(prompt).map(piece)), make("span", { class: "said" }, ...pieces.map(piece)), end);
    return make("div", {}, make("p", { class: "kicker" }, heading), body);
  }

  function tail(prompt) {  // a long sentence need not be read six times
    let left = LEAD;
    const kept = [];
    for (const { text, side } of [...prompt].reverse()) {
      const letters = [...text];
      if (letters.length > left) { kept.unshift({ text: "…" + (left ? letters.slice(-left).join("") : ""), side }); break; }
      left -= letters.length;
      kept.unshift({ text, side });
    }
    return kept;
  }

  // ---- heads

  function map(scores, gates, chosen) {
    const largest = Math.max(1e-12, ...(scores || []).flat().map(Math.abs));
    for (const button of document.querySelectorAll("#map .head")) {
      const score = scores ? scores[button.dataset.layer][button.dataset.number] : 0;
      const gate = gates[button.dataset.head] ?? 1;
      button.style.setProperty("--s", (Math.abs(score) / largest).toFixed(3));
      button.classList.toggle("anti", score < 0);
      button.classList.toggle("off", gate === 0);
      button.classList.toggle("turned", gate !== 1 && gate !== 0);
      button.classList.toggle("chosen", button.dataset.head === chosen);
      button.setAttribute("aria-pressed", String(gate === 0));
      button.textContent = gate === 1 || gate === 0 ? "" : String(+gate.toFixed(2));
      const said = gate === 0 ? "switched off" : gate === 1 ? "on" : "gate " + +gate.toFixed(2);
      button.setAttribute("aria-label", "Head " + button.dataset.head + ", " + said + (scores ? ", score " + signed(score) : ""));
    }
  }

  // ---- neurons: rows stay where they are while one of them has the focus

  function neurons(found, gates, turn) {
    const list = one("#neurons");
    if (!list) return;
    const rows = new Map([...list.children].map((row) => [row.dataset.neuron, row]));
    if (!list.contains(document.activeElement)) list.replaceChildren(...found.map(({ neuron }) => rows.get(neuron) || neuronRow(neuron, turn)));
    const scores = new Map(found.map(({ neuron, score }) => [neuron, score]));
    const largest = Math.max(1e-12, ...[...scores.values()].map(Math.abs));
    for (const row of list.children) {
      const name = row.dataset.neuron, gate = gates[name] ?? 1, score = scores.get(name);
      const [button, bar, text, slider] = row.children;
      button.setAttribute("aria-pressed", String(gate === 0));
      const said = gate === 0 ? "switched off" : gate === 1 ? "on" : "gate " + +gate.toFixed(2);
      button.setAttribute("aria-label", "Neuron " + name + ", " + said + (score === undefined ? "" : ", score " + signed(score)));
      bar.style.setProperty("--s", (Math.abs(score || 0) / largest).toFixed(3));
      bar.classList.toggle("anti", score < 0);
      text.textContent = score === undefined ? "–" : signed(score, 2);
      if (document.activeElement !== slider) slider.value = gate;
      slider.setAttribute("aria-valuetext", said);
    }
  }

  function neuronRow(name, turn) {
    const button = make("button", { type: "button" }, name), slider = make("input", { type: "range", min: 0, max: 2, step: 0.05, "aria-label": "Gate of neuron " + name });
    button.addEventListener("click", () => turn(name, button.getAttribute("aria-pressed") === "true" ? 1 : 0));
    slider.addEventListener("input", () => turn(name, Number(slider.value)));
    return make("li", { "data-neuron": name }, button, make("i", { class: "score" }), make("span", {}), slider);
  }

  // ---- attention

  const SVG = "http://www.w3.org/2000/svg";
  const shape = (name, attributes, text = "") => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };

  function arcs(attention, layer, head, choose) {
    const svg = one("#arcs"), weights = attention.weights[layer][head];
    const widths = attention.tokens.map((token) => 14 + 8 * Math.min(14, [...token].length));
    const centers = widths.map((width, i) => widths.slice(0, i).reduce((a, b) => a + b, 0) + width / 2 + 6);
    const total = centers.at(-1) + widths.at(-1) / 2 + 12, from = attention.source[0];
    const farthest = Math.max(...centers.map((x) => Math.abs(x - centers[from])));
    const height = Math.min(150, 30 + farthest / 3);
    svg.replaceChildren();
    svg.setAttribute("width", total);
    svg.setAttribute("height", height + 26);
    weights.forEach((weight, i) => {
      if (i === from || weight < 0.005) return;
      const rise = height - Math.min(height - 8, 14 + Math.abs(centers[i] - centers[from]) / 3);
      svg.append(shape("path", { d: `M${centers[from]},${height} C${centers[from]},${rise} ${centers[i]},${rise} ${centers[i]},${height}`, "stroke-width": (0.6 + 6 * weight).toFixed(2), "stroke-opacity": Math.min(1, 0.15 + weight).toFixed(2) }));
    });
    attention.tokens.forEach((token, i) => svg.append(shape("text", { x: centers[i], y: height + 18, "text-anchor": "middle", "font-weight": attention.source.includes(i) ? 700 : 400 }, token.length > 14 ? token.slice(0, 13) + "…" : token)));
    const most = weights.map((w, i) => [w, i]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    svg.setAttribute("aria-label", "Most attention goes to " + most.map(([w, i]) => attention.tokens[i] + " " + percent(w)).join(", "));
    one("#attending").textContent = `${layer + 1}-${head + 1}`;
    one("#words").replaceChildren(...attention.words.map(([start, end]) => {
      const button = make("button", { type: "button", "aria-pressed": String(start === attention.word[0]) }, make("bdi", {}, attention.text.slice(start, end)));
      button.addEventListener("click", () => choose(start));
      return button;
    }));
  }

  // ---- the benchmark

  function progressing(progress, bar, line) {
    bar.hidden = !progress || progress.finished;
    if (bar.hidden) return false;
    bar.max = progress.total;
    bar.value = progress.done;
    line.textContent = `${progress.label}: ${progress.done} of ${progress.total}`;
    return true;
  }

  function fitting(progress) {
    if (!progressing(progress, one("#fitting"), one("#fitted"))) one("#fitted").textContent = progress && progress.line !== "canceled" ? progress.line : "";
  }

  const inWords = (done, sure) => {
    if (!sure) return "no significant change";
    if (done.cost) return done.change > 0 ? "worse" : "better";
    return Math.abs(done.after) < Math.abs(done.before) ? "nearer to even" : "farther from even";
  };

  function measured(jobs, now) {  // now: the key of the change that the page shows; another's numbers are not for it
    const bar = one("#measuring"), line = one("#measured");
    const progress = jobs.benchmark && jobs.benchmark.key === now ? jobs.benchmark : null;
    const done = jobs.compared && jobs.compared.key === now ? jobs.compared : null;
    delete line.dataset.change;
    if (progressing(progress, bar, line)) return;
    if (!done) line.textContent = progress && progress.line !== "canceled" ? progress.line : "";
    else {
      const [low, high] = done.change_interval || [0, 0];
      const sure = low > 0 || high < 0;
      line.textContent = `${done.name}, ${done.items} items: ${signed(done.before)}${between(done.before_interval)} before, ${signed(done.after)}${between(done.after_interval)} after. ` +
        `Change ${signed(done.change)}${between(done.change_interval)} ${done.unit}: ${inWords(done, sure)}.` +
        (done.effects ? ` As an effect size (SEAT) ${done.effects.map((x) => signed(x, 2)).join(" before, ")} after.` : "");
      line.dataset.change = done.change;
    }
  }

  // ---- nothing: what was drawn is about another sentence

  function clear() {
    for (const name of ["sides", "odds", "spoken", "effect", "bars", "marked", "problems", "moves", "words", "arcs", "neurons", "measured", "as-command", "as-recipe", "as-python", "writes"]) one("#" + name)?.replaceChildren();
    one("#arcs").setAttribute("aria-label", "Attention");
  }

  return { one, clear, marked, sides, odds, bars, continuations, map, neurons, arcs, fitting, measured, signed };
})();
