#include <string.h>

#include "native.h"

enum { SLACK = 16 };

void gather(const struct window *g, const float *x, dim first, dim end, float *out, dim ld) {
	dim run = g->s * g->c, row = g->w * g->c; // the taps of one row lie side by side
	// Short runs are copied 16 floats at a time. The next run or row overwrites the rest, and the
	// caller leaves room after the last row. Near the end of x, where that would read past it, they are
	// copied exactly.
	dim size = (end - 1) / (g->oh * g->ow) * g->h * row + g->h * row - SLACK;
	int small = run <= SLACK;
	for (dim p = first; p < end; p++, out += ld) {
		dim w0 = p % g->ow * g->stride - g->pad + g->ds, h0 = p / g->ow % g->oh * g->stride - g->pad + g->dr;
		const float *image = x + p / (g->ow * g->oh) * g->h * row;
		float *o = out;
		dim lo = w0 < 0 ? -w0 : 0, hi = w0 + g->s > g->w ? g->w - w0 : g->s; // taps inside
		for (dim h = h0; h < h0 + g->r; h++, o += run) {
			if (h < 0 || h >= g->h || lo >= hi) {
				memset(o, 0, run * sizeof(float));
				continue;
			}
			const float *from = image + h * row + w0 * g->c;
			if (small && lo == 0 && hi == g->s && from - x <= size) {
				memcpy(o, from, SLACK * sizeof(float));
				continue;
			}
			if (lo > 0) memset(o, 0, lo * g->c * sizeof(float));
			if (hi < g->s) memset(o + hi * g->c, 0, (g->s - hi) * g->c * sizeof(float));
			memcpy(o + lo * g->c, from + lo * g->c, (hi - lo) * g->c * sizeof(float));
		}
	}
}
