"""The control room as one HTML file: the engine's window loop as WebAssembly, and a front end of its own in JavaScript."""
