// 3x3 convolutions with stride 1 by products of thirds (thirds.h), and minimal filtering F(4,3) along
// rows only (axes.h): half of the direct way's products. Along both axes a quarter would be left,
// but transforms would take longer than these products.
//
// A band is some rows of output of a group of images. What it reads is transformed and split once,
// in lines of 32 channels: four columns of an image at one of six positions. A row's lines of all the
// group's images follow one another; 16 lines are a tile, and those that the next of three taps meets begin a
// row further on. Taps that meet nothing but padding are left out.
#ifndef GPUSTALL_KERNELS_CPU_BANDS_H
#define GPUSTALL_KERNELS_CPU_BANDS_H

#include "thirds.h"

struct band {
	dim h, w, c, pad, oh, ow, k; // c and k are multiples of 32
	dim group, images;           // images of a group, and how many there are
	dim row, rows;               // of output
	dim plane;                   // lines of one third of a position of 32 channels
};

// band_split splits what the band reads of x, which begins with its first image.
void band_split(const struct band *b, const float *x, half *out);

// band_filters splits filters w [n][9][c] in right operands for a panel of outputs and a chunk of
// channels, both of 32; or, back, for the gradient of the input, of which c are the outputs.
void band_filters(const struct band *b, dim back, const float *w, dim panel, dim chunk, half *out);

// What is read next: runs of so many cache lines, and floats from one run to the next.
struct ahead {
	const float *at;
	dim runs, lines, step;
};

// band_multiply computes the band of y, which begins with its first image, and fetches what is
// read next meanwhile.
void band_multiply(const struct band *b, const half *a, const half *filters, float *y, const float *bias, dim flags,
                   const struct ahead *ahead);

#endif
