// A shifted crop, mirrored or not, and normalised, with AVX2.
#include <stddef.h>
#include <stdint.h>

// Crop writes width*height pixels to out. For columns j of [left,right), at least 8, (i,j) is
// pixel (i+dy, j+dx) of the image of that size at pix; all other pixels are zero. Then each row
// is mirrored if flip, and all is normalised by factors (norm_of). It reads and writes nothing
// outside of either image.
void gpustall_crop(const uint8_t *pix, ptrdiff_t width, ptrdiff_t height, ptrdiff_t dy, ptrdiff_t dx, ptrdiff_t left,
                   ptrdiff_t right, int flip, const float *factors, float *out);
