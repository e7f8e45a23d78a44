// Planes to pixels.
#include <stddef.h>
#include <stdint.h>

// Interleave writes n pixels of three bytes, one of each of the planes of n bytes that lie one
// behind the other at src. n is a multiple of 32. It takes AVX2.
void gpustall_interleave(const uint8_t *src, size_t n, uint8_t *dst);
