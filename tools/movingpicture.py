"""A moving picture of a page, as an animated GIF: screenshots at the steps of a story, each with how long it stays.

screenshot ──canvas: scaled──► RGBA ──► one palette for all ──► what changed since the frame before ──LZW──► control-room.gif
"""

from base64 import b64decode, b64encode
from pathlib import Path

import numpy as np
from playwright.sync_api import Page

COLOURS = 127  # and one for what stays as it was
BITS = 7  # of a colour's number
SCALE = """async ([data, width]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${data}`;
  await image.decode();
  const canvas = new OffscreenCanvas(width, Math.round(image.height * width / image.width));
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const { data: pixels } = context.getImageData(0, 0, canvas.width, canvas.height);
  let text = "";
  for (let at = 0; at < pixels.length; at += 32768) text += String.fromCharCode(...pixels.subarray(at, at + 32768));
  return [canvas.height, btoa(text)];
}"""


class MovingPicture:
    """Takes the frames of a page; `save` writes them as a GIF that is `width` pixels wide and repeats."""

    def __init__(self, page: Page, width: int = 900):
        self._page, self._width = page, width
        self._shots: list[tuple[bytes, float]] = []

    def show(self, seconds: float) -> None:
        """Takes a frame of the page as it is now, which stays for so long."""
        self._shots.append((self._page.screenshot(), seconds))

    def save(self, path: Path) -> None:
        """Writes the GIF."""
        frames = []
        for shot, _ in self._shots:
            height, data = self._page.evaluate(SCALE, [b64encode(shot).decode(), self._width])
            pixels = np.frombuffer(b64decode(data), np.uint8).reshape(height, self._width, 4)
            frames.append(pixels[:, :, :3])
        path.write_bytes(gif(frames, [seconds for _, seconds in self._shots]))


def gif(frames: list[np.ndarray], seconds: list[float]) -> bytes:
    """An animated GIF of frames of the same size, [height, width, RGB], which repeats."""
    palette, numbered = _reduce(frames)
    height, width = numbered[0].shape
    size = width.to_bytes(2, "little") + height.to_bytes(2, "little")
    made = b"GIF89a" + size + bytes([0x80 | (BITS - 1) * 0x11, 0, 0]) + palette.tobytes()
    made += b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
    before = np.full((height, width), COLOURS, np.uint8)
    for frame, stays in zip(numbered, seconds):
        changed = np.argwhere(frame != before)
        (top, left), (bottom, right) = (changed.min(0), changed.max(0)) if len(changed) else ((0, 0), (0, 0))
        part = np.s_[top : bottom + 1, left : right + 1]
        pixels = np.where(frame[part] == before[part], COLOURS, frame[part]).astype(np.uint8)
        delay = round(100 * stays).to_bytes(2, "little")
        made += b"\x21\xf9\x04\x05" + delay + bytes([COLOURS, 0])
        box = (left, top, right - left + 1, bottom - top + 1)
        made += b"\x2c" + b"".join(int(n).to_bytes(2, "little") for n in box) + bytes([0, BITS])
        data = lzw(pixels.tobytes())
        blocks = (data[at : at + 255] for at in range(0, len(data), 255))
        made += b"".join(bytes([len(block)]) + block for block in blocks) + b"\0"
        before = frame
    return made + b"\x3b"


def _reduce(frames: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The most frequent colours, [COLOURS + 1, RGB], and the frames as their numbers; other colours become the next one."""
    coarse = [((frame.astype(np.uint32) >> 3) * [1024, 32, 1]).sum(2) for frame in frames]
    counts = np.bincount(np.concatenate([each.ravel() for each in coarse]), minlength=1 << 15)
    frequent = np.argsort(-counts, kind="stable")[:COLOURS]
    used = np.flatnonzero(counts)
    colours = np.stack([np.arange(1 << 15) >> shift & 31 for shift in (10, 5, 0)], 1)
    nearest = np.zeros(1 << 15, np.uint8)
    apart = ((colours[used][:, None] - colours[frequent][None]) ** 2).sum(2)
    nearest[used] = apart.argmin(1)
    palette = np.zeros((COLOURS + 1, 3), np.uint8)
    for channel in range(3):  # of each colour, what those that are nearly it are on average
        weights = np.concatenate([frame[:, :, channel].ravel() for frame in frames])
        sums = np.bincount(np.concatenate([each.ravel() for each in coarse]), weights, minlength=1 << 15)
        palette[:COLOURS, channel] = np.round(sums[frequent] / np.maximum(counts[frequent], 1))
    return palette, [nearest[each] for each in coarse]


def lzw(pixels: bytes) -> bytes:
    """Compresses the numbers of colours as GIF does."""
    clear, end = 1 << BITS, (1 << BITS) + 1
    codes: dict[int, int] = {}
    size, new = BITS + 1, end + 1
    made, buffer, filled = bytearray(), clear, size

    def emit(code: int) -> None:
        nonlocal buffer, filled
        buffer |= code << filled
        filled += size
        while filled >= 8:
            made.append(buffer & 255)
            buffer >>= 8
            filled -= 8

    prefix = pixels[0]
    for pixel in pixels[1:]:
        key = prefix << 8 | pixel
        if (code := codes.get(key)) is not None:
            prefix = code
            continue
        emit(prefix)
        if new == 4096:
            emit(clear)
            codes, size, new = {}, BITS + 1, end + 1
        else:
            size += new >= 1 << size
            codes[key] = new
            new += 1
        prefix = pixel
    emit(prefix)
    emit(end)
    return bytes(made + buffer.to_bytes(2, "little")) if filled else bytes(made)
