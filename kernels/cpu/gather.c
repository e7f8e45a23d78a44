#include <string.h>

#include "native.h"

void gather(const struct window *g, const float *x, dim first, dim end, float *out, dim ld) {
	dim run = g->s * g->c, row = g->w * g->c; // the taps of one row lie side by side
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
			if (lo > 0) memset(o, 0, lo * g->c * sizeof(float));
			if (hi < g->s) memset(o + hi * g->c, 0, (g->s - hi) * g->c * sizeof(float));
			memcpy(o + lo * g->c, image + h * row + (w0 + lo) * g->c, (hi - lo) * g->c * sizeof(float));
		}
	}
}
