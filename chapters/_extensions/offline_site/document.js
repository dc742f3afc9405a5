/* As much of a document as a widget needs to draw itself once: elements, text, attributes. */
(() => {
  const VOID = new Set(["input", "br", "img", "hr", "wbr"]);
  const REFLECTED = ["hidden", "disabled", "checked", "open", "value", "min", "max", "id", "name", "type", "href", "htmlFor"];
  const FLAGS = new Set(["hidden", "disabled", "checked", "open"]);
  const escape = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
  const kebab = (name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

  class Text {
    constructor(text) { this.textContent = String(text); }
    remove() { detach(this); }
    get outerHTML() { return escape(this.textContent); }
  }

  const asNode = (child) => (child instanceof Element || child instanceof Text ? child : new Text(child));

  function detach(node) {
    if (node.parentNode) node.parentNode.childNodes = node.parentNode.childNodes.filter((other) => other !== node);
    node.parentNode = null;
  }

  class Element {
    constructor(tag) {
      this.localName = tag;
      this.attributes = new Map();
      this.childNodes = [];
      this.parentNode = null;
      this.classList = classList(this);
      this.dataset = new Proxy({}, {
        get: (_, name) => this.getAttribute(`data-${kebab(name)}`) ?? undefined,
        set: (_, name, value) => { this.setAttribute(`data-${kebab(name)}`, value); return true; },
      });
      this.style = style(this);
    }
    get tagName() { return this.localName.toUpperCase(); }
    get children() { return this.childNodes.filter((child) => child instanceof Element); }
    get textContent() { return this.childNodes.map((child) => child.textContent).join(""); }
    set textContent(text) { this.replaceChildren(...(text === "" ? [] : [text])); }
    get className() { return this.getAttribute("class") ?? ""; }
    set className(text) { this.setAttribute("class", text); }
    get tabIndex() { return Number(this.getAttribute("tabindex") ?? -1); }
    set tabIndex(value) { this.setAttribute("tabindex", value); }
    setAttribute(name, value) { this.attributes.set(name, String(value)); }
    getAttribute(name) { return this.attributes.get(name) ?? null; }
    hasAttribute(name) { return this.attributes.has(name); }
    removeAttribute(name) { this.attributes.delete(name); }
    toggleAttribute(name, on = !this.hasAttribute(name)) { if (on) this.setAttribute(name, ""); else this.removeAttribute(name); }
    append(...nodes) { this.#place(nodes, this.childNodes.length); }
    prepend(...nodes) { this.#place(nodes, 0); }
    replaceChildren(...nodes) {
      for (const child of [...this.childNodes]) detach(child);
      this.append(...nodes);
    }
    remove() { detach(this); }
    #place(nodes, at) {
      const placed = nodes.map(asNode);
      for (const node of placed) { detach(node); node.parentNode = this; }
      this.childNodes.splice(Math.min(at, this.childNodes.length), 0, ...placed);
    }
    addEventListener() {}
    removeEventListener() {}
    focus() {}
    setPointerCapture() {}
    get outerHTML() {
      const chosen = this.localName === "select" ? this.value : null;
      const inside = this.childNodes.map((child) => markup(child, chosen)).join("");
      const attributes = [...this.attributes].filter(([name]) => !(chosen !== null && name === "value"))
        .map(([name, value]) => ` ${name}="${escape(value)}"`).join("");
      return `<${this.localName}${attributes}>` + (VOID.has(this.localName) ? "" : `${inside}</${this.localName}>`);
    }
  }

  function markup(child, chosen) {
    if (chosen !== null && child.localName === "option") child.toggleAttribute("selected", String(child.value) === String(chosen));
    return child.outerHTML;
  }

  for (const name of REFLECTED) {
    const attribute = name === "htmlFor" ? "for" : name;
    Object.defineProperty(Element.prototype, name, FLAGS.has(name)
      ? { get() { return this.hasAttribute(attribute); }, set(on) { this.toggleAttribute(attribute, Boolean(on)); } }
      : { get() { return this.getAttribute(attribute) ?? ""; }, set(value) { this.setAttribute(attribute, value); } });
  }

  function classList(element) {
    const names = () => element.className.split(/\s+/).filter(Boolean);
    const write = (all) => { if (all.length || element.hasAttribute("class")) element.className = all.join(" "); };
    const list = {
      contains: (name) => names().includes(name),
      add: (...added) => write([...new Set([...names(), ...added])]),
      remove: (...gone) => write(names().filter((name) => !gone.includes(name))),
      toggle(name, on = !list.contains(name)) { list[on ? "add" : "remove"](name); return on; },
    };
    return list;
  }

  function style(element) {
    const own = new Map();
    const write = (name, value) => {
      own.set(name, value);
      element.setAttribute("style", [...own].map(([key, text]) => `${key}: ${text}`).join("; "));
    };
    return new Proxy({ setProperty: write }, {
      get: (target, name) => target[name] ?? own.get(kebab(name)) ?? "",
      set: (_, name, value) => { write(kebab(name), value); return true; },
    });
  }

  globalThis.document = {
    createElement: (tag) => new Element(tag),
    createElementNS: (_, tag) => new Element(tag),
    createTextNode: (text) => new Text(text),
  };
  globalThis.location = { pathname: "" };
  globalThis.crypto = { getRandomValues: (numbers) => numbers.map(() => Math.floor(Math.random() * 2 ** 32)) };

  /* The same page for the same book: names are drawn from the view's number. */
  function seeded(seed) {
    let state = seed + 1;
    return () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return state / 2 ** 32;
    };
  }

  globalThis.drawStill = (json, number) => {
    Math.random = seeded(number);
    const state = JSON.parse(json);
    const model = { get: (name) => state[name], set(name, value) { state[name] = value; }, on() {}, off() {}, save_changes() {}, send() {} };
    const element = new Element("div");
    const { render, withoutScript, initialize } = globalThis.widget;
    initialize?.({ model });
    render({ model, el: element });
    const more = withoutScript ? withoutScript({ model }) : [];
    const noscript = more.length ? `<noscript>${more.map((node) => node.outerHTML).join("")}</noscript>` : "";
    return element.childNodes.map((node) => node.outerHTML).join("") + noscript;
  };
})();
