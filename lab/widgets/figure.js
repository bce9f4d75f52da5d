// A plotly figure that is ready at once and draws when plotly is there. The first figure of a kernel asks it for plotly's
// bundle, of five megabytes, and all share it: a page that is loaded again makes all its figures in the same second.
// Then it asks for its state: what the kernel changed while the bundle came is in it.
const AGAIN_MS = 5000, WAITING_MS = 2000;
function ask(model, wanted, answered) {
  const receive = (message, buffers) => {
    if (message.answer !== wanted) return;
    clearInterval(again);
    model.off("msg:custom", receive);
    answered(buffers);
  };
  model.on("msg:custom", receive);
  model.send({ wanted });
  const again = setInterval(() => model.send({ wanted }), AGAIN_MS);  // a kernel that just begins may miss it
}
function bundle(model) {
  const shared = (globalThis.labPlotly ??= {});
  return (shared[model.get("_process")] ??= new Promise((resolve) => {
    ask(model, "plotly", (buffers) => {
      const address = URL.createObjectURL(new Blob(buffers, { type: "text/javascript" }));
      resolve(import(/* webpackIgnore: true */ address));
    });
  }));
}
// Plotly looks at a figure's size only when the window changes.
function follow(el) {
  const place = new ResizeObserver(() => {
    clearTimeout(globalThis.labPlotly.resizing);
    globalThis.labPlotly.resizing = setTimeout(() => window.dispatchEvent(new Event("resize")), 60);
  });
  place.observe(el);
  return place;
}
// Sentence and table follow the plot, once a second at most.
function describe(el, words) {
  let waiting = null;
  const refresh = accompany(el, words);
  const again = () => {
    waiting ??= setTimeout(() => {
      waiting = null;
      refresh();
    }, 1000);
  };
  const drawn = new MutationObserver(again);
  drawn.observe(el, { childList: true, subtree: true });
  again();
  return { disconnect: () => { drawn.disconnect(); clearTimeout(waiting); } };
}
export default () => {
  let ready;
  return {
    initialize({ model }) {
      ready = bundle(model).then((plotly) => new Promise((resolve) => {
        ask(model, "state", () => {
          const figure = plotly.default();
          figure.initialize({ model });
          resolve(figure);
        });
      }));
    },
    render({ model, el }) {
      let remove = () => {}, removed = false, place = null, sentence = null;
      const note = document.createElement("p");
      note.role = "status";
      el.append(note);
      const waiting = setTimeout(() => (note.textContent = model.get("_words").waiting), WAITING_MS);
      ready.then((figure) => {
        clearTimeout(waiting);
        note.remove();
        if (removed) return;
        remove = figure.render({ el });
        setTimeout(() => {  // as soon as it is drawn
          if (removed) return;
          place = follow(el);
          sentence = describe(el, model.get("_words"));
        }, 200);
      });
      return () => { removed = true; clearTimeout(waiting); note.remove(); place?.disconnect(); sentence?.disconnect(); remove(); };
    },
  };
};
