(() => {
  "use strict";
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const root = document.documentElement;
  const say = (text) => { one("#status").textContent = text; };
  const read = (element) => JSON.parse(element.textContent);
  const color = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

  // ---- light and dark: the system's choice until the reader makes one

  const system = matchMedia("(prefers-color-scheme: dark)");
  const remembered = () => { try { return localStorage.getItem("levelhead-theme"); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem("levelhead-theme", theme); } catch { /* not every browser keeps it for files */ } };

  function setTheme(theme) {
    root.dataset.theme = theme;
    const button = one("#theme");
    button.setAttribute("aria-pressed", String(theme === "dark"));
    button.textContent = "Dark";
    button.title = theme === "dark" ? "Switch to light" : "Switch to dark";
  }
  setTheme(remembered() || (system.matches ? "dark" : "light"));
  system.addEventListener("change", () => { if (!remembered()) { setTheme(system.matches ? "dark" : "light"); redraw(); } });
  one("#theme").addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    setTheme(theme);
    remember(theme);
    redraw();
  });

  // ---- files

  function download(href, name) {
    const link = document.createElement("a");
    link.href = href;
    link.download = name;
    link.click();
    say("Saved " + name);
  }
  const blob = (text, type) => URL.createObjectURL(new Blob([text], { type }));

  function saveSvg(svg, name, as) {
    const copy = svg.cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const text = new XMLSerializer().serializeToString(copy);
    if (as === "svg") { download(blob(text, "image/svg+xml"), name + ".svg"); return; }
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * image.width;
      canvas.height = 2 * image.height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      download(canvas.toDataURL("image/png"), name + ".png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  }

  for (const button of all("button.csv")) {
    button.addEventListener("click", () => download(blob(button.dataset.csv, "text/csv"), button.dataset.name + ".csv"));
  }

  for (const button of all("button.copy")) {
    button.addEventListener("click", async () => {
      const pre = one("pre", button.closest(".codebox"));
      try {
        await navigator.clipboard.writeText(pre.textContent);
      } catch {  // without permission the old way still works
        getSelection().selectAllChildren(pre);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      say("Copied");
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  // ---- charts

  const views = new Map();
  const chosen = {};  // signal -> value

  /* Color names such as $biased become the theme's colors; data keep their strings. */
  function themed(node, key) {
    if (typeof node === "string") return /^\$[a-z]+\d*$/.test(node) ? color(node.slice(1)) || node : node;
    if (node === null || typeof node !== "object" || ["data", "datasets", "domain", "sort"].includes(key)) return node;
    if (Array.isArray(node)) return node.map((each) => themed(each));
    return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, themed(value, name)]));
  }

  function house(width) {
    const ink = color("ink"), muted = color("muted"), line = color("line");
    return {
      background: color("card"), font: "system-ui, sans-serif", view: { stroke: null },
      axis: { labelColor: ink, titleColor: color("soft"), gridColor: line, domainColor: muted, tickColor: muted, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500 },
      axisQuantitative: { tickCount: Math.max(3, Math.floor(width / 110)), labelOverlap: true },
      legend: { orient: "top", labelColor: ink, titleColor: color("soft"), labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, labelLimit: 220, symbolBaseFillColor: ink, symbolBaseStrokeColor: ink, columns: Math.max(1, Math.floor((width - 110) / 130)) },
    };
  }

  async function draw(figure) {
    const plot = one(".plot", figure);
    figure.toggleAttribute("data-unseen", !plot.clientWidth);  // some browsers give what is folded no width
    views.get(figure)?.finalize();
    const spec = themed(read(one("script", figure)));
    const theme = root.dataset.theme === "dark" ? "dark" : "light";
    const options = { ast: true, actions: false, defaultStyle: false, renderer: "svg", config: house(plot.clientWidth), tooltip: { theme, disableDefaultStyle: true } };
    const { view } = await vegaEmbed(plot, spec, options);
    views.set(figure, view);
    for (const name of figure.dataset.follows.split(" ")) if (name in chosen) view.signal(name, chosen[name]);
    await view.runAsync();
    if (figure.closest(".frontier")) view.addEventListener("click", (_, item) => choose(item?.datum?.setting));
    figure.dataset.drawn = "yes";
  }

  async function redraw() {
    showArcs();
    await Promise.all(all("figure.chart").map(draw));
    root.dataset.ready = "yes";
  }

  for (const select of all("select[data-signal]")) {
    select.addEventListener("change", async () => {
      const name = select.dataset.signal;
      chosen[name] = JSON.parse(select.value);
      const followers = [...views].filter(([figure]) => figure.dataset.follows.split(" ").includes(name));
      await Promise.all(followers.map(([, view]) => view.signal(name, chosen[name]).runAsync()));
      say("Charts show " + select.selectedOptions[0].textContent);
    });
  }

  for (const button of all("button.save")) {
    button.addEventListener("click", async () => {
      const figure = button.closest("figure"), as = button.dataset.as;
      const href = await views.get(figure).toImageURL(as, as === "png" ? 2 : 1);
      download(href, figure.dataset.name + "." + as);
    });
  }

  // ---- texts: found, sorted and saved; without this script they are a plain list

  const AT_ONCE = 40;
  for (const box of all(".textbox")) {
    const list = one("ol", box), texts = [...list.children];
    const filters = all("select[data-by]", box), holds = one("[data-holds]", box), sort = one("[data-sort]", box), further = one(".further", box);
    const numbers = new Map(texts.map((text) => [text, JSON.parse(text.dataset.numbers)]));
    const words = new Map(texts.map((text) => [text, one("p", text).textContent.toLowerCase()]));
    let found = texts, shown = AT_ONCE;

    const fits = (text, but) => filters.every((each) => each === but || !each.value || text.dataset[each.dataset.by] === each.value);
    function offer() {  // each filter has the values that the others leave
      for (const each of filters) {
        const held = each.value, values = [...new Set(texts.filter((text) => fits(text, each)).map((text) => text.dataset[each.dataset.by]))].filter(Boolean);
        each.replaceChildren(each.options[0], ...values.map((value) => new Option(value, value)));
        each.value = values.includes(held) ? held : "";
        each.parentElement.hidden = values.length < 2 && !held;
      }
    }
    function show() {
      const first = new Set(found.slice(0, shown));
      for (const text of texts) text.hidden = !first.has(text);
      one(".info", box).textContent = `${found.length.toLocaleString("en")} of ${texts.length.toLocaleString("en")} texts${found.length > first.size ? `; the first ${first.size} are shown` : ""}.`;
      further.hidden = found.length <= first.size;
    }
    function find() {
      offer();
      const word = holds.value.trim().toLowerCase(), name = sort.value.replace(/^-/, ""), sign = sort.value.startsWith("-") ? 1 : -1;
      found = texts.filter((text) => fits(text) && (!word || words.get(text).includes(word)));
      if (name) {  // texts without the number come last
        const of = (text) => numbers.get(text)[name];
        found = found.filter((text) => name in numbers.get(text)).sort((a, b) => sign * (of(a) - of(b)));
      }
      list.append(...(name ? found : texts));
      shown = AT_ONCE;
      show();
    }
    for (const each of [...filters, sort]) each.addEventListener("change", find);
    holds.addEventListener("input", find);
    further.addEventListener("click", () => { shown += AT_ONCE; show(); });
    one(".jsonl", box).addEventListener("click", () => {
      const lines = found.map((text) => JSON.stringify({ variant: text.dataset.variant, set: text.dataset.set, group: text.dataset.group,
        prompt: one(".given", text).textContent.trimEnd(), text: one(".said", text).textContent, ...numbers.get(text) }) + "\n");
      download(blob(lines.join(""), "application/x-ndjson"), box.dataset.name + ".jsonl");
    });
    for (const each of [one(".controls", box), one(".jsonl", box)]) each.hidden = false;
    box.classList.add("found-by-script");
    find();
  }

  // ---- recipes of the frontier

  const settings = one("#settings-data") ? read(one("#settings-data")) : [];
  function showRecipe() {
    const setting = settings[Number(one("#setting").value)];
    one("#recipe").textContent = setting.recipe || "# " + setting.name + ": no recipe, the model as it is";
  }
  function choose(name) {
    const index = settings.findIndex((setting) => setting.short === name);
    if (index < 0) return;
    one("#setting").value = String(index);
    showRecipe();
    say("Recipe of " + name);
  }
  if (settings.length) { one("#setting").addEventListener("change", showRecipe); showRecipe(); }

  // ---- head map

  const heads = all("button.head");
  const grid = all("table.map tbody tr").map((row) => all("button.head", row));
  const tip = one("#tip");
  let current = one("button.head[data-first]");

  function showTip(head, text = head.getAttribute("aria-label")) {
    tip.textContent = text;
    tip.hidden = false;
    const box = head.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (box.top > tip.offsetHeight + 12 ? box.top - tip.offsetHeight - 8 : box.bottom + 8) + "px";
  }
  const hideTip = () => { tip.hidden = true; };
  addEventListener("scroll", hideTip, { passive: true });

  // ---- technical words: the definition on hover and focus, as the description of a link to the glossary

  for (const term of all("a.term")) {
    const show = () => { showTip(term, term.dataset.about); term.setAttribute("aria-describedby", "tip"); };
    const hide = () => { hideTip(); term.removeAttribute("aria-describedby"); };
    term.addEventListener("mouseenter", show);
    term.addEventListener("focus", show);
    term.addEventListener("mouseleave", hide);
    term.addEventListener("blur", hide);
    term.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
    term.addEventListener("pointerup", (event) => {  // a finger cannot hover: the first touch shows, the second follows
      if (event.pointerType === "touch" && tip.dataset.of !== term.href) tip.dataset.held = "yes";
      tip.dataset.of = term.href;
    });
    term.addEventListener("click", (event) => {
      if (!tip.dataset.held) return;
      delete tip.dataset.held;
      event.preventDefault();
      show();
    });
  }

  function select(head) {
    for (const each of [current, head]) { each.setAttribute("aria-pressed", "false"); each.tabIndex = -1; }
    current = head;
    head.setAttribute("aria-pressed", "true");
    head.tabIndex = 0;
    one("#head-info").textContent = head.getAttribute("aria-label");
    showArcs();
  }

  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  grid.forEach((row, y) => row.forEach((head, x) => {
    head.addEventListener("click", () => select(head));
    head.addEventListener("mouseenter", () => showTip(head));
    head.addEventListener("mouseleave", hideTip);
    head.addEventListener("focus", () => showTip(head));
    head.addEventListener("blur", hideTip);
    head.addEventListener("keydown", (event) => {
      const step = steps[event.key];
      if (event.key === "Escape") hideTip();
      if (!step) return;
      event.preventDefault();
      const next = grid[y + step[0]]?.[x + step[1]];
      if (next) { head.tabIndex = -1; next.tabIndex = 0; next.focus(); }
    });
  }));

  const drawn = (tag, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    if (text !== undefined) element.textContent = text;
    return element;
  };

  function mapImage() {
    const size = 24, left = 60, top = 34;
    const width = left + size * grid[0].length + 20, height = top + size * grid.length + 40;
    const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "sans-serif", "font-size": 11 });
    svg.append(drawn("rect", { width, height, fill: color("card") }));
    svg.append(drawn("text", { x: 10, y: 20, "font-size": 13, "font-weight": "bold", fill: color("ink") }, "Bias score of every head"));
    grid.forEach((row, y) => {
      svg.append(drawn("text", { x: left - 8, y: top + size * y + 16, "text-anchor": "end", fill: color("ink") }, Number(row[0].dataset.layer) + 1));
      row.forEach((head, x) => svg.append(drawn("rect", {
        x: left + size * x, y: top + size * y, width: size - 2, height: size - 2, fill: getComputedStyle(head).backgroundColor })));
    });
    grid[0].forEach((head, x) => svg.append(drawn("text", {
      x: left + size * x + 11, y: top + size * grid.length + 14, "text-anchor": "middle", fill: color("ink") }, Number(head.dataset.head) + 1)));
    svg.append(drawn("text", { x: left, y: height - 8, fill: color("muted") }, "head, by layer"));
    return svg;
  }
  for (const button of all("button.save-map")) button.addEventListener("click", () => saveSvg(mapImage(), "head-map", button.dataset.as));
  for (const button of all("button.save-arcs")) button.addEventListener("click", () => {
    const svg = one("#arcs svg");
    if (svg) saveSvg(svg, "attention", button.dataset.as);
  });

  // ---- attention arcs

  const pairs = one("#arcs-data") ? read(one("#arcs-data")) : [];
  if (pairs.length) one("#pair").addEventListener("change", showArcs);

  function showArcs() {
    if (!pairs.length || !current) return;
    const place = one("#arcs"), pair = pairs[Number(one("#pair").value)];
    const { layer, head, name } = current.dataset;
    const versions = [["Original", pair.original], ["Counter-stereotype", pair.counter]].map(([title, version]) => ({
      title, tokens: version.tokens, target: version.target, attribute: version.attribute, weights: version.attention[layer]?.[head] }));
    one("#arcs-title").textContent = `Attention of head ${name}`;
    place.replaceChildren();
    one("#arcs-story").textContent = "";
    if (versions.some((version) => !version.weights)) {
      const none = document.createElement("p");
      none.className = "note";
      none.textContent = "This run kept no attention for this head; an audit keeps that of every head.";
      place.append(none);
      return;
    }
    place.append(arcImage(versions, `Head ${name}`, Math.floor(place.clientWidth)));
    one("#arcs-story").textContent = story(versions, current.dataset);
  }

  /* Words stand side by side where there is room, else at a slant: nothing is cut at any width. */
  function arcImage(versions, title, room) {
    const texts = versions.map((version) => `${version.title}: attention to ${named(version)} ${attention(version)}`);
    const wide = versions.map((version) => spread(version.tokens));
    const natural = Math.ceil(Math.max(300, ...wide.map((each) => each.end + 14)));
    const slanted = natural > room, width = slanted ? room : natural;
    const places = slanted ? versions.map((version) => squeeze(version.tokens, width)) : wide.map((each) => each.middles);
    const below = slanted ? 12 + 0.82 * Math.max(...versions.flatMap((version) => version.tokens.map(widthOf))) : 20;
    const panel = 152 + below, height = Math.ceil(panel * versions.length);
    const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `${title}. ${texts.join(". ")}`, "font-family": "system-ui, sans-serif", "font-size": 14 });
    svg.append(drawn("rect", { width, height, fill: color("card") }));
    versions.forEach((version, i) => panelOf(svg, version, places[i], { top: panel * i, line: panel * (i + 1) - below, slanted }));
    return svg;
  }

  const ruler = document.createElement("canvas").getContext("2d");
  function widthOf(token) {
    ruler.font = "bold 14px system-ui, sans-serif";
    return ruler.measureText(token).width;
  }
  function spread(tokens) {
    let x = 14;
    const middles = tokens.map((token) => {
      const wide = widthOf(token), middle = x + wide / 2;
      x += wide + (token ? 10 : 0);
      return middle;
    });
    return { middles, end: x };
  }
  function squeeze(tokens, width) {
    const step = (width - 60) / Math.max(1, tokens.filter(Boolean).length - 1);
    let place = -1;
    return tokens.map((token) => 44 + step * (token ? ++place : Math.max(0, place)));
  }
  /* What the head does in this pair, beside what it does on average: one pair alone shows little. */
  function story(versions, { name, change, sentences }) {
    const [before, after] = versions.map((version) => Number(attention(version)));
    if (Number.isNaN(before) || Number.isNaN(after)) return "";
    const moves = (by) => (by > 0 ? "falls by " : "rises by ") + Math.abs(by).toFixed(3);
    const pair = `In this pair, attention of head ${name} to the group word ${moves(before - after)} when the stereotype is reversed`;
    return change ? `${pair}; over ${sentences} sentences it ${moves(Number(change))} on average.` : `${pair}.`;
  }
  const named = (version) => "“" + version.attribute.map((i) => version.tokens[i]).join("") + "”";
  function attention(version) {
    const parts = version.attribute.map((i) => version.weights[i]);
    return parts.some((part) => part === null) ? "not scored" : parts.reduce((sum, part) => sum + part, 0).toFixed(3);
  }

  function panelOf(svg, version, x, { top, line, slanted }) {
    const stroke = color(version.title === "Original" ? "biased" : "regular");
    const start = version.target.reduce((sum, i) => sum + x[i], 0) / version.target.length;
    svg.append(drawn("text", { x: 14, y: top + 18, fill: stroke, "font-size": 13, "font-weight": 600 }, version.title));
    svg.append(drawn("text", { x: 14, y: top + 36, fill: stroke, "font-size": 13 }, `attention to ${named(version)} ${attention(version)}`));
    version.weights.forEach((weight, i) => {
      if (!weight || version.target.includes(i)) return;
      const reach = Math.min(82, 14 + Math.abs(x[i] - start) / 2.4), y = line - 18;
      svg.append(drawn("path", { d: `M${start},${y} C${start},${y - reach} ${x[i]},${y - reach} ${x[i]},${y}`, fill: "none", stroke,
        "stroke-width": (0.4 + 5.6 * weight).toFixed(2), "stroke-opacity": version.attribute.includes(i) ? 1 : 0.3, "stroke-linecap": "round" }));
    });
    version.tokens.forEach((token, i) => {
      const strong = version.target.includes(i) || version.attribute.includes(i);
      const turn = slanted ? { "text-anchor": "end", transform: `rotate(-55 ${x[i]} ${line})` } : { "text-anchor": "middle" };
      svg.append(drawn("text", { x: x[i] + (slanted ? 4 : 0), y: line, ...turn, fill: color(strong ? "ink" : "soft"), "font-weight": strong ? "bold" : "normal" }, token));
    });
  }

  // ---- width and paper

  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; showArcs(); } });
  function unfold() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const study = one("details.study", target);
    if (study) study.open = true;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    requestAnimationFrame(() => target.scrollIntoView());
  }
  addEventListener("hashchange", unfold);
  addEventListener("click", (event) => {  // also where the address stays as it is
    const link = event.target.closest?.('a[href^="#"]');
    if (link && !event.defaultPrevented && link.hash === location.hash) unfold();
  });
  for (const study of all("details.study")) {
    study.addEventListener("toggle", () => {
      if (study.open) { showArcs(); all("figure[data-unseen]", study).forEach(draw); }
    });
  }
  let folded = [];
  const paper = () => { root.toggleAttribute("data-paper", location.hash === "#appendix"); };
  addEventListener("hashchange", paper);
  one("#print-appendix")?.addEventListener("click", () => {
    root.toggleAttribute("data-paper", true);
    print();
    paper();
  });
  addEventListener("beforeprint", () => {
    folded = all("details:not([open])");
    for (const each of folded) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of folded) each.open = false; });

  if (current) select(current);
  paper();
  unfold();
  redraw().then(unfold);  // charts move what stands below them
})();
