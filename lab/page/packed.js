// What is packed in the page: gzip, in base64.
"use strict";

const bytesOf = (text) => Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
const unpacked = async (text) => new Uint8Array(await new Response(new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
