"""Writes this folder's images, and beside each the pixels that Pillow makes of it with
Image.open(f).convert("RGB"), which is what torchvision's ImageFolder hands on: NAME.png.

Run: python make.py (needs Pillow, numpy and simplejpeg; made with Pillow 13.0.0, which has
libjpeg-turbo 3.2.0 and libwebp 1.6.0, and simplejpeg 1.9.0)
"""
import os
import numpy as np
import simplejpeg
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))


def picture(w, h, seed=1):
    """Slopes, hard edges in saturated colours, and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w] / max(w, h)
    p = np.stack([255 * x, 255 * y, 255 * (1 - x)], -1)
    for _ in range(12):
        cx, cy, r = rng.random(3) * (1, h / w, 0.25)
        p[(x - cx) ** 2 + (y - cy) ** 2 < r * r] = rng.integers(0, 2, 3) * 255
    p[h // 3: h // 2] += rng.normal(0, 40, (h // 2 - h // 3, w, 3))
    return np.ascontiguousarray(p.clip(0, 255).astype(np.uint8))


def golden(name):
    """Saves what Pillow reads in a file."""
    path = os.path.join(HERE, name)
    with Image.open(path) as image:
        image.convert("RGB").save(path + ".png", optimize=True)


def save(name, image, **options):
    image.save(os.path.join(HERE, name), **options)
    golden(name)


def write(name, data):
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(data)
    golden(name)


def jpegs():
    image = Image.fromarray(picture(53, 37))
    for sub in ["4:4:4", "4:2:2", "4:2:0"]:
        save("jpeg%s.jpg" % sub.replace(":", ""), image, quality=85, subsampling=sub)
    for sub in ["440", "411"]:
        write("jpeg%s.jpg" % sub, simplejpeg.encode_jpeg(picture(53, 37), 85, colorsubsampling=sub))
    save("progressive.jpg", image, quality=75, progressive=True)
    save("restart.jpg", image, quality=95, restart_marker_blocks=2, optimize=True)
    save("rgb.jpg", image, quality=85, keep_rgb=True)
    save("grey.jpg", image.convert("L"), quality=85)
    save("cmyk.jpg", image.convert("CMYK"), quality=95)
    # Chroma of one and two columns is not interpolated; of three it is.
    for w, h in [(1, 1), (2, 3), (4, 4), (5, 2), (6, 17), (64, 1)]:
        save("narrow%dx%d.jpg" % (w, h), Image.fromarray(picture(w, h, 2)), quality=95, subsampling="4:2:0")
    save("narrow3x5.jpg", Image.fromarray(picture(3, 5, 3)), quality=95, subsampling="4:2:2")


if __name__ == "__main__":
    jpegs()
