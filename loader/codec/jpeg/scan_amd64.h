// Decoding with AVX2 and BMI2. For any input it does the same as scan, decodeBlock, inverse and
// the conversion to RGB in Go, to the bit.
#include <stddef.h>
#include <stdint.h>

enum { look_bits = 10, pair_bits = 10 };

// The tables of huffman.go and pairs.go.
struct codes {
	uint16_t look[1 << look_bits];
	uint32_t limit[17];
	int32_t offset[17];
	uint8_t symbol[256], counts[16];
	uint8_t built, ok;
};
struct ac_table {
	struct codes codes;
	int32_t whole[1 << look_bits];
	uint64_t pair[1 << pair_bits];
	uint32_t skip[1 << pair_bits];
	uint8_t paired;
};

// A component: its sampling factors, tables and plane, and the blocks that are wanted.
struct plane {
	int32_t h, v, dc, ac, q;
	int32_t pred;
	int64_t at, stride;
	int32_t min_x, max_x, min_y, max_y;
};

// A scan: what to do, and the place in the input.
struct scan {
	int64_t length, pos;
	int32_t comps, across, rows, every;
	int32_t pad, n, end;
	uint64_t acc;
	struct plane plane[4];
};

// Scan decodes rows of MCUs of the entropy-coded segments. quant has 64 divisors a table in
// zigzag order. If the input ended, s->end is set. The planes are then not valid, because
// Go reads less far ahead.
void gpustall_jpeg_scan(struct scan *s, const uint8_t *b, uint8_t *planes, const struct codes *dc,
                        const struct ac_table *ac, const uint16_t *quant);

// How the chroma planes are subsampled.
enum { full = 0, half_wide = 1, half_high = 2 };

// The part of an image that is converted, and the image's size.
struct part { int64_t width, height, x, y, w, h; };

// Rgb converts a part. Up to 32 bytes are read past the end of each plane.
void gpustall_jpeg_rgb(const struct part *p, int subsampling, const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                       int64_t y_stride, int64_t c_stride, uint8_t *out);
