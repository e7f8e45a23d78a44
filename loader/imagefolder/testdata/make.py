"""Writes cmyk.jpg with Pillow: 16 x 16 pixels of CMYK, from RGB (200, 60, 20)."""
import os
from PIL import Image
Image.new("RGB", (16, 16), (200, 60, 20)).convert("CMYK").save(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cmyk.jpg"), quality=95)
