// A block of 8 x 8 coefficients becomes pixels.
#include <immintrin.h>
#include <stdint.h>

#define AVX2 __attribute__((target("avx2,bmi,bmi2")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2")))

// zigzag is natural of segments.go, but values after the last coefficient go to places of their
// own.
extern const uint8_t zigzag[64 + 16];

// Flat writes a block of one value.
void gpustall_flat(uint8_t *out, int64_t stride, int32_t dc);

// Inverse transforms a block whose coefficients lie row by row.
void gpustall_inverse(const int16_t *block, uint8_t *out, int64_t stride);
