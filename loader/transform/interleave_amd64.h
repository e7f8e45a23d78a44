// Planes to pixels: of the red, green and blue bytes of an image, each in a plane of its own,
// the three bytes of each pixel side by side.
//
// The JPEG decoder includes this file as well (codec/jpeg/rgb_amd64.c). The go command does not
// look for changes of a file in another folder: after one, build that package with -a.
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define INTERLEAVE static inline __attribute__((always_inline, target("avx2")))

// PICK is a shuffle of the 16 bytes in each half of a vector; -1 makes a zero.
#define PICK(v, ...) _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(_mm_setr_epi8(__VA_ARGS__)))

// interleave32 makes 96 bytes of 32 pixels. In out[j] are the j-th 16 bytes of the first 16
// pixels, and in its upper half the j-th 16 bytes of the other 16.
INTERLEAVE void interleave32(__m256i r, __m256i g, __m256i b, __m256i out[3]) {
	out[0] = _mm256_or_si256(_mm256_or_si256(
		PICK(r, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5),
		PICK(g, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1)),
		PICK(b, -1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1));
	out[1] = _mm256_or_si256(_mm256_or_si256(
		PICK(r, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1),
		PICK(g, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10)),
		PICK(b, -1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1));
	out[2] = _mm256_or_si256(_mm256_or_si256(
		PICK(r, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1),
		PICK(g, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1)),
		PICK(b, 10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15));
}

// store_pixels writes 32 pixels, 96 bytes.
INTERLEAVE void store_pixels(__m256i r, __m256i g, __m256i b, uint8_t *out) {
	__m256i t[3];
	interleave32(r, g, b, t);
	_mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(t[0], t[1], 0x20));
	_mm256_storeu_si256((__m256i *)(out + 32), _mm256_permute2x128_si256(t[2], t[0], 0x30));
	_mm256_storeu_si256((__m256i *)(out + 64), _mm256_permute2x128_si256(t[1], t[2], 0x31));
}
