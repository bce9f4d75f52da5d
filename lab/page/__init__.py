"""The control room as one HTML file: the engine's window loop as WebAssembly, and `lab.model` on Pyodide. JavaScript decodes, stores and draws."""
