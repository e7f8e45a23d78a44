// Planes of float16 to pixels of float32, with F16C and AVX2.
#include <stddef.h>
#include <stdint.h>

// Halves writes n pixels of three floats. Each float comes from one of the planes at src, which
// lie stride float16 apart. n is a multiple of 8. A signalling NaN becomes a quiet one.
void gpustall_halves(const uint8_t *src, size_t stride, size_t n, float *dst);
