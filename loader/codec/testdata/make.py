"""Writes this folder's images, and beside each the pixels that Pillow makes of it with
Image.open(f).convert("RGB"), which is what torchvision's ImageFolder hands on: NAME.png.

Run: python make.py (needs Pillow, numpy and simplejpeg; made with Pillow 13.0.0, which has
libjpeg-turbo 3.2.0 and libwebp 1.6.0, and simplejpeg 1.9.0)
"""
import os
import struct
import zlib

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
        rgb = image.convert("RGB")
    rgb.info.clear()  # a transparent colour would be stored with it
    rgb.save(path + ".png", optimize=True)


def save(name, image, **options):
    image.save(os.path.join(HERE, name), **options)
    golden(name)


def write(name, data):
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(data)
    golden(name)


def change(name, of, how):
    with open(os.path.join(HERE, of), "rb") as f:
        data = bytearray(f.read())
    how(data)
    write(name, bytes(data))


def jpegs():
    image = Image.fromarray(picture(53, 37))
    for sub in ["4:4:4", "4:2:2", "4:2:0"]:
        save("jpeg%s.jpg" % sub.replace(":", ""), image, quality=85, subsampling=sub)
    for sub in ["440", "411"]:
        write("jpeg%s.jpg" % sub, simplejpeg.encode_jpeg(picture(53, 37), 85, colorsubsampling=sub))
    save("progressive.jpg", image, quality=75, progressive=True)
    save("progressive444.jpg", image.crop((0, 0, 50, 30)), quality=95, progressive=True, subsampling="4:4:4")
    save("progressivegrey.jpg", image.convert("L"), quality=60, progressive=True)
    # image/jpeg of Go 1.26 takes some of these for damaged.
    save("progressiverestart.jpg", image, quality=85, progressive=True, restart_marker_blocks=3)
    save("restart.jpg", image, quality=95, restart_marker_blocks=2, optimize=True)
    save("rgb.jpg", image, quality=85, keep_rgb=True)
    save("grey.jpg", image.convert("L"), quality=85)
    inks = np.array(image.convert("CMYK"))
    inks[:, :, 3] = np.arange(inks[:, :, 3].size).reshape(inks.shape[:2]) % 90
    inks = Image.fromarray(inks, "CMYK")
    save("cmyk.jpg", inks, quality=95)
    save("progressivecmyk.jpg", inks, quality=60, progressive=True)

    def ycck(data):
        data[data.index(b"Adobe") + 11] = 2

    def unmarked(data):
        at = data.index(b"\xff\xee\0\x0eAdobe")
        data[at: at + 16] = b""

    change("ycck.jpg", "cmyk.jpg", ycck)
    change("cmykunmarked.jpg", "cmyk.jpg", unmarked)
    # Chroma of one and two columns is not interpolated; of three it is.
    for w, h in [(1, 1), (2, 3), (4, 4), (5, 2), (6, 17), (64, 1)]:
        save("narrow%dx%d.jpg" % (w, h), Image.fromarray(picture(w, h, 2)), quality=95, subsampling="4:2:0")
    save("narrow3x5.jpg", Image.fromarray(picture(3, 5, 3)), quality=95, subsampling="4:2:2")


def damaged():
    """Files that libjpeg decodes with a warning, which Pillow does not pass on."""
    def bit(data):
        data[len(data) // 2] ^= 4

    def zeros(data):
        data[len(data) - 500: len(data) - 300] = bytes(200)

    def early(data):
        data[len(data) * 2 // 3: len(data) - 2] = b""

    def no_restart(data):
        at = data.index(b"\xff\xd2", len(data) // 3)
        data[at: at + 2] = b""

    def wrong_restart(data):
        data[data.index(b"\xff\xd2", len(data) // 3) + 1] = 0xD5

    change("damagedbit.jpg", "jpeg420.jpg", bit)
    change("damagedzeros.jpg", "jpeg444.jpg", zeros)
    change("damagedend.jpg", "jpeg422.jpg", early)
    change("damagedrestart.jpg", "restart.jpg", no_restart)
    change("damagedrestart2.jpg", "restart.jpg", wrong_restart)


def png16(name, image, colour):
    """16 bits a colour, which Pillow does not write: colour 0 grey, 2 RGB, 4 grey and alpha, 6 RGBA."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    h, w = image.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in image)
    write(name, b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 16, colour, 0, 0, 0))
          + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def alpha(image):
    image = image.convert("RGBA")
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    return image


def others():
    image = Image.fromarray(picture(31, 19))
    wide = np.random.default_rng(4).integers(0, 65536, (7, 9, 4))
    dark = wide[:, :, 0] // 128  # around 255, where Pillow clips
    clear = image.quantize(5)
    clear.info["transparency"] = 2
    for name, one in {"bilevel": image.convert("1"), "grey": image.convert("L"), "palette": image.quantize(5),
                      "clear": clear, "rgb": image, "rgba": alpha(image)}.items():
        save(name + ".PNG", one)
        if name != "clear":
            save(name + ".bmp", one)
            save(name + ".tif", one, compression={"bilevel": "group4", "grey": "packbits", "palette": "tiff_lzw",
                                                  "rgb": "tiff_adobe_deflate", "rgba": None}[name])
    save("greyalpha.PNG", image.convert("LA"))
    save("interlaced.PNG", image)
    for name, colour, channels in [("16rgb", 2, slice(3)), ("16rgba", 6, slice(4)), ("16greyalpha", 4, slice(2))]:
        png16(name + ".PNG", wide[:, :, channels], colour)
    png16("16grey.PNG", dark, 0)
    save("16grey.tiff", Image.fromarray(dark.astype(np.uint16)))
    save("premultiplied.tif", alpha(image), tiffinfo={338: 1})
    save("fax.tif", image.convert("1"), compression="group3", tiffinfo={262: 0})
    for w, h in [(31, 19), (32, 20), (1, 1), (2, 2), (3, 4)]:
        save("lossy%dx%d.webp" % (w, h), Image.fromarray(picture(w, h)), quality=80)
    save("lossyalpha.webp", alpha(image), quality=80)
    save("lossless.webp", image, lossless=True)
    save("losslessalpha.webp", alpha(image), lossless=True)
    grey = np.asarray(image.convert("L"))
    save("grey.pgm", image.convert("L"))
    save("rgb.ppm", image)
    save("bilevel.pbm", image.convert("1"))
    write("7bit.pgm", b"P5 31\t19 # wide, high\n100\n" + (grey // 3).astype(np.uint8).tobytes())
    write("16grey.pgm", b"P5\n9 7\n65535\n" + dark.astype(">u2").tobytes())
    write("10grey.pgm", b"P5\n9 7\n1000\n" + (dark % 1001).astype(">u2").tobytes())
    write("12rgb.ppm", b"P6\n9 7\n4095\n" + (wide[:, :, :3] % 4096).astype(">u2").tobytes())
    write("plain.pbm", b"P1\n# bits\n9 7\n" + "".join("%d" % (v & 1) for v in dark.ravel()).encode() + b"\n")
    write("plain.pgm", b"P2\n9 7 31\n" + " ".join("%d" % (v % 32) for v in dark.ravel()).encode())
    write("plain.ppm", b"P3 9 7 255\n" + "\n".join("%d" % (v % 256) for v in wide[:, :, :3].ravel()).encode())


if __name__ == "__main__":
    jpegs()
    damaged()
    others()
