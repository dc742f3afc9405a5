/* Hosts anywidget front-end modules on a static page: no require.js, no html-manager, no
   kernel. It reads the widget state that MyST-NB writes into the page, wires jslink and
   jsdlink between anywidgets, and draws each view. What it cannot draw it says in words. */
(() => {
  "use strict";

  const STATE = 'script[type="application/vnd.jupyter.widget-state+json"]';
  const VIEW = 'script[type="application/vnd.jupyter.widget-view+json"]';

  class NeedsKernel extends Error {}

  /* The part of a Jupyter widget model that a front-end module may use. */
  class Model {
    #state;
    #listeners = new Map();
    #module = null;

    constructor(state) {
      this.#state = state;
    }

    get(name) {
      return this.#state[name];
    }

    set(name, value) {
      const wanted = typeof name === "object" ? name : { [name]: value };
      const changed = Object.entries(wanted).filter(([key, to]) => !Object.is(this.#state[key], to));
      Object.assign(this.#state, wanted);
      for (const [key, to] of changed) this.#emit(`change:${key}`, to);
      if (changed.length) this.#emit("change");
    }

    on(event, callback) {
      if (!this.#listeners.has(event)) this.#listeners.set(event, new Set());
      this.#listeners.get(event).add(callback);
    }

    off(event, callback) {
      if (!event) this.#listeners.clear();
      else if (callback) this.#listeners.get(event)?.delete(callback);
      else this.#listeners.delete(event);
    }

    #emit(event, value) {
      for (const callback of [...(this.#listeners.get(event) ?? [])]) callback(this, value);
    }

    /* There is no kernel to tell. */
    save_changes() {}
    send() {}

    /* The model's module, initialised once however many views it has. */
    module() {
      this.#module ??= importModule(this.get("_esm")).then(async (module) => {
        await module.initialize?.({ model: this });
        return module;
      });
      return this.#module;
    }
  }

  const modules = new Map();

  /* The module's text, or the name of one that a script of the page holds for all its widgets. */
  function importModule(named) {
    const source = named.startsWith("shared:") ? globalThis.sharedModules[named.slice("shared:".length)] : named;
    if (!modules.has(source)) {
      const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
      modules.set(source, import(url).then(({ default: it }) => (typeof it === "function" ? it() : it)));
    }
    return modules.get(source);
  }

  /* Binary traits travel as base64 beside the state; modules expect a DataView in their place. */
  function withBuffers({ state, buffers = [] }) {
    for (const { data, path } of buffers) {
      const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
      const owner = path.slice(0, -1).reduce((value, key) => value[key], state);
      owner[path.at(-1)] = new DataView(bytes.buffer);
    }
    return state;
  }

  function modelsOf(entries) {
    const anywidgets = Object.entries(entries).filter(([, entry]) => entry.model_module === "anywidget");
    return new Map(anywidgets.map(([id, entry]) => [id, new Model(withBuffers(entry))]));
  }

  function follow([source, from], [target, to]) {
    source.on(`change:${from}`, () => target.set(to, source.get(from)));
  }

  function link({ model_name, state }, models) {
    const [source, target] = [state.source, state.target].map(([reference, name]) => {
      const model = models.get(reference.replace("IPY_MODEL_", ""));
      if (!model) throw new NeedsKernel("a link between widgets has an end that is no anywidget");
      return [model, name];
    });
    target[0].set(target[1], source[0].get(source[1]));
    follow(source, target);
    if (model_name === "LinkModel") follow(target, source);
  }

  function linkAll(entries, models) {
    for (const entry of Object.values(entries)) {
      if (!/^(Directional)?LinkModel$/.test(entry.model_name)) continue;
      try {
        link(entry, models);
      } catch (error) {
        console.error(error);
      }
    }
  }

  const styles = new Set();

  function addStyle(css) {
    if (!css || styles.has(css)) return;
    styles.add(css);
    document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
  }

  function explain(element, error) {
    const sentence = error instanceof NeedsKernel
      ? "This widget needs a running kernel: download the notebook of this page and open it in JupyterLab."
      : "This widget did not start. The rest of the page does not need it.";
    element.replaceChildren(
      Object.assign(document.createElement("p"), { className: "widget-error", textContent: sentence }));
    console.error(error);
  }

  async function draw(script, models) {
    const element = document.createElement("div");
    element.className = "anywidget-view";
    const still = script.previousElementSibling;
    if (!still?.matches(".anywidget-view.still")) script.before(element);
    try {
      const id = JSON.parse(script.textContent).model_id;
      const model = models.get(id);
      if (!model) throw new NeedsKernel(`widget ${id} is no anywidget, or has no saved state`);
      addStyle(model.get("_css"));
      const module = await model.module();
      await module.render?.({ model, el: element });
    } catch (error) {
      explain(element, error);
    }
    // The picture from the build keeps the place until the widget is there.
    if (!element.isConnected) still.replaceWith(element);
  }

  async function start() {
    const tag = document.querySelector(STATE);
    const entries = tag ? JSON.parse(tag.textContent).state : {};
    const models = modelsOf(entries);
    linkAll(entries, models);
    await Promise.all([...document.querySelectorAll(VIEW)].map((script) => draw(script, models)));
    document.documentElement.dataset.widgets = "drawn";
  }

  // Once every deferred script has run: those that hold the modules may come after this one.
  if (document.readyState === "complete") start();
  else document.addEventListener("DOMContentLoaded", start);
})();
