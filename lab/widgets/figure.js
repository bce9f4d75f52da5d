// A plotly figure that is ready at once and draws when plotly is there. The first figure of a kernel asks it for plotly's
// bundle, of five megabytes, and all share it: a page that is loaded again makes all its figures in the same second.
// Then it asks for its state: what the kernel changed while the bundle came is in it.
function ask(model, wanted, answered) {
  const heard = (message, buffers) => {
    if (message.answer !== wanted) return;
    model.off("msg:custom", heard);
    answered(buffers);
  };
  model.on("msg:custom", heard);
  model.send({ wanted });
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
    render({ el }) {
      let remove = () => {}, removed = false;
      ready.then((figure) => { if (!removed) remove = figure.render({ el }); });
      return () => { removed = true; remove(); };
    },
  };
};
