// Blurring with AVX2 and without FMA, so that the sums are those of blur.go to the bit.
#include <stddef.h>
#include <stdint.h>

// Row writes n sums along in: out[x] is the sum of weight[k] times what lies 3k floats on
// either side of in[3 * radius + x]. In and out have room for 32 floats more.
void gpustall_blur_row(const float *in, size_t n, const float *weight, size_t radius, float *out);

// Columns writes n bytes: sums over the rows of in, which begin at rows[0] to
// rows[2 * radius]. In has room for 32 floats more.
void gpustall_blur_columns(const float *in, const int32_t *rows, size_t n, const float *weight, size_t radius, uint8_t *out);
