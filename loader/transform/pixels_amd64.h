#include <stddef.h>
#include <stdint.h>

// Interleave writes n pixels of three bytes. Their planes of n bytes lie one behind the other
// at src. n is a multiple of 32. It takes AVX2.
void gpustall_interleave(const uint8_t *src, size_t n, uint8_t *dst);
