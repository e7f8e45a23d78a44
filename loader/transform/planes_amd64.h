// Planes to floats: what crop_amd64.h does, of images as CIFAR stores them.
#include <stddef.h>
#include <stdint.h>

enum { gpustall_together = 8 };

// image is a sample of gpustall_crop_planes.
struct gpustall_image {
	const uint8_t *planes;
	const uint8_t *soon; // bytes that are read later, to be fetched into the second-level cache; or null
	int32_t dy, dx;
	int flip;
};

// images are passed by value, so that each may point to memory of Go.
struct gpustall_images {
	struct gpustall_image of[gpustall_together];
};

// Crop_planes writes n images of rows x 32 pixels to out, one behind the other and each as
// gpustall_crop does, of red, green and blue planes; dx is within 31 of zero, and of the
// bytes that are read later there are as many. It takes AVX2 and FMA, or, if wide, AVX-512
// with VBMI. It writes past the caches where out is at a multiple of 64.
void gpustall_crop_planes(struct gpustall_images images, int n, ptrdiff_t rows, int wide, const float *factors, float *out);
