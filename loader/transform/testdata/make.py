"""Writes resize.json: what PIL makes of crops of a generated image, by checksum.

Run: python make.py (needs Pillow and numpy; made with Pillow 10.4.0)
"""
import hashlib
import json
import os

import numpy as np
from PIL import Image

W, H = 61, 43
state, px = 1, []
for _ in range(W * H * 3):
    state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    px.append(state >> 16 & 255)
image = Image.fromarray(np.array(px, np.uint8).reshape(H, W, 3))

cases = []
for crop in [(0, 0, 61, 43), (5, 3, 20, 30), (10, 10, 24, 24), (60, 42, 1, 1), (0, 0, 61, 1), (7, 0, 2, 43)]:
    for w, h in [(24, 24), (8, 8), (100, 70), (1, 1), (33, 5)]:
        x, y, cw, ch = crop
        out = image.crop((x, y, x + cw, y + ch)).resize((w, h), Image.BILINEAR)
        cases.append({"crop": crop, "w": w, "h": h, "sha256": hashlib.sha256(np.asarray(out).tobytes()).hexdigest()})
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "resize.json"), "w") as f:
    f.write("[\n" + ",\n".join(" " + json.dumps(c) for c in cases) + "\n]\n")
