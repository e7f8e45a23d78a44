// 3x3 convolutions with stride 1 by products of thirds (thirds.h) and minimal filtering F(4,3) along
// rows only (axes.h). That makes half of the direct way's products. Filtering along both axes would
// make a quarter, but its transforms would take longer than these products.
//
// A band is some rows of output of a group of images. Its input is transformed and split once, in lines
// of 32 channels. A line is four columns of an image at one of six positions. The lines of one row, of
// all the group's images, follow one another. 16 lines are a tile. The lines that the next of three taps
// reads begin one row further on. Taps that read padding alone are left out.
#ifndef GPUSTALL_KERNELS_CPU_BANDS_H
#define GPUSTALL_KERNELS_CPU_BANDS_H

#include "thirds.h"

struct band {
	dim h, w, c, pad, oh, ow, k; // c and k are multiples of 32
	dim group, images;           // images of a group, and how many there are
	dim row, rows;               // of output
	dim plane;                   // lines of one third of a position of 32 channels
};

// band_split splits what the band reads of x. x begins with the band's first image.
void band_split(const struct band *b, const float *x, half *out);

// band_filters splits filters w [n][9][c] into right operands, for a panel of 32 outputs and a chunk of
// 32 channels. With back it does so for the gradient of the input, whose outputs are c.
void band_filters(const struct band *b, dim back, const float *w, dim panel, dim chunk, half *out);

// What is read next: runs of that many cache lines, and the floats from one run to the next.
struct ahead {
	const float *at;
	dim runs, lines, step;
};

// band_multiply computes the band of y, and fetches what is read next meanwhile. y begins with the
// band's first image.
void band_multiply(const struct band *b, const half *a, const half *filters, float *y, const float *bias, dim flags,
                   const struct ahead *ahead);

#endif
