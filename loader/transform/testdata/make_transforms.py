"""Writes transforms.json: what torchvision makes of two small Pillow images, by checksum
where ours is the same to the bit, else the pixels.

Run: python make_transforms.py (made with torch 2.15.0, torchvision 0.29.2, Pillow 13.0.0)
"""
import base64
import hashlib
import json
import os

import numpy as np
from PIL import Image
from torchvision.transforms import InterpolationMode, TrivialAugmentWide
from torchvision.transforms import functional as F
from torchvision.transforms.autoaugment import _apply_op

W, H = 29, 23


def noise():
    state, px = 1, []
    for _ in range(W * H * 3):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        px.append(state >> 16 & 255)
    return Image.fromarray(np.array(px, np.uint8).reshape(H, W, 3))


def smooth():
    y, x, c = np.mgrid[0:H, 0:W, 0:3]
    return Image.fromarray((30 + (7 * x + 3 * y + 50 * c) % 190).astype(np.uint8))


images = {"noise": noise(), "smooth": smooth()}
cases = []


def case(image, op, made, exact=True, **what):
    b = np.asarray(made).tobytes()
    got = {"sha256": hashlib.sha256(b).hexdigest()} if exact else {"pixels": base64.b64encode(b).decode()}
    cases.append({"image": image, "op": op, **what, **got})


for name, img in images.items():
    space = TrivialAugmentWide()._augmentation_space(31)
    for what, (op, (magnitudes, signed)) in enumerate(space.items()):
        for bin in [0, 4, 15, 20, 29, 30] if magnitudes.ndim else [0]:
            for negative in [False, True] if signed else [False]:
                m = float(magnitudes[bin]) if magnitudes.ndim else 0.0
                made = _apply_op(img, op, -m if negative else m, InterpolationMode.NEAREST, None)
                case(name, "trivial", made, exact=op != "AutoContrast", what=what, bin=bin, negative=negative)
    for f in [0.0, 0.37, 1.0, 1.63, 3.0]:
        for op, fn in [(1, F.adjust_brightness), (2, F.adjust_contrast), (3, F.adjust_saturation)]:
            case(name, "colour", fn(img, f), steps=[[op, f]])
    for f in [-0.5, -0.07, 0.1]:
        case(name, "colour", F.adjust_hue(img, f), exact=False, steps=[[4, f]])
    some = F.adjust_saturation(F.adjust_brightness(F.adjust_contrast(img, 1.3), 0.8), 0.6)
    case(name, "colour", some, steps=[[2, 1.3], [1, 0.8], [3, 0.6]])
    for k, sigma in [(3, 0.1), (5, 0.7), (23, 2.0), (23, 1.1)]:
        case(name, "blur", F.gaussian_blur(img, [k, k], [sigma, sigma]), exact=False, taps=k, sigma=sigma)

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "transforms.json"), "w") as f:
    f.write("[\n" + ",\n".join(" " + json.dumps(c) for c in cases) + "\n]\n")
