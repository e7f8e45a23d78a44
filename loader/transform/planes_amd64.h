// Planes to floats: this does what crop_amd64.h does, for images as CIFAR stores them.
#include <stddef.h>
#include <stdint.h>

enum { gpustall_together = 8 };

// image is one sample of gpustall_crop_planes.
struct gpustall_image {
	const uint8_t *planes;
	const uint8_t *soon; // bytes that are read later, to be fetched into the second-level cache; or null
	int32_t dy, dx;
	int flip;
};

// images are passed by value, so that each may point to Go's memory.
struct gpustall_images {
	struct gpustall_image of[gpustall_together];
};

// Crop_planes writes n images of rows x 32 pixels to out, one behind the other, from red,
// green and blue planes. It writes each image as gpustall_crop does. The shift dx is within
// 31 of zero. The bytes to prefetch are as many as an image has. It takes AVX2 and FMA or, if
// wide, AVX-512 with VBMI. If out is a multiple of 64, it writes past the caches.
void gpustall_crop_planes(struct gpustall_images images, int n, ptrdiff_t rows, int wide, const float *factors, float *out);
