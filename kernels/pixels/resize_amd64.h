// Resizing with AVX2: the first pass along rows, the second along columns, each with
// sums of 22-bit weights that are exact, so that the bytes are those of resize.go.
#include <stddef.h>
#include <stdint.h>

// A filter's weights come in groups of four taps, each split in two, because the
// instruction multiplies 16 bits: four times weight>>11, four times weight&2047.
// Taps that an output lacks have weights of zero. The output with the most taps has
// them in so many pairs.

// Horizontal makes n pixels of each row of in, RGB, and writes them, mirrored or not,
// to rows of out. It reads 16 bytes from the first tap of each group on, of the
// groups that an output lacks too, and writes one byte past each row.
void gpustall_resize_horizontal(const uint8_t *in, size_t in_stride, size_t rows, const int32_t *first,
                                const int16_t *split, size_t pairs, size_t n, int mirrored, uint8_t *out,
                                size_t out_stride);

// Vertical makes count rows of n bytes of the rows of mid; output i of those from
// first[i] on, width[i] of them. It reads up to 23 bytes past each row.
void gpustall_resize_vertical(const uint8_t *mid, size_t stride, size_t n, const int32_t *first, const int32_t *width,
                              const int16_t *split, size_t pairs, size_t count, uint8_t *out);
