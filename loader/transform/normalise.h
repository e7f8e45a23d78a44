// Normalisation of RGB bytes, with AVX2 (normalise_amd64.h).
#include <stddef.h>
#include <stdint.h>

// Normalise writes n values, normalised by factors (norm_of). The first is a red one.
void gpustall_normalise(const uint8_t *in, size_t n, const float *factors, float *out);
