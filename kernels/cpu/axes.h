// F(4,3) along one axis, with the points 0, 1, -1, 2, -2 (winograd.h). Included after simd.h.
#ifndef GPUSTALL_KERNELS_CPU_AXES_H
#define GPUSTALL_KERNELS_CPU_AXES_H

#define EACH(i, n) _Pragma("GCC unroll 6") for (int i = 0; i < n; i++)

static inline __attribute__((always_inline)) void mul_bt(const vec *d, vec *o) { // B^T d
	vec a = d[4] - 4 * d[2], b = d[3] - 4 * d[1], c = d[4] - d[2], e = 2 * (d[3] - d[1]);
	o[0] = 4 * d[0] - 5 * d[2] + d[4];
	o[1] = a + b, o[2] = a - b, o[3] = c + e, o[4] = c - e;
	o[5] = 4 * d[1] - 5 * d[3] + d[5];
}

static inline __attribute__((always_inline)) void mul_at(const vec *m, vec *o) { // A^T m
	vec a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
	o[0] = m[0] + a + c, o[1] = b + 2 * d, o[2] = a + 4 * c, o[3] = b + 8 * d + m[5];
}

static inline __attribute__((always_inline)) void mul_a(const vec *y, vec *o) { // A y
	vec a = y[0] + y[2], b = y[1] + y[3], c = y[0] + 4 * y[2], d = 2 * y[1] + 8 * y[3];
	o[0] = y[0], o[1] = a + b, o[2] = a - b, o[3] = c + d, o[4] = c - d, o[5] = y[3];
}

static inline __attribute__((always_inline)) void mul_g(const vec *g, vec *o) { // G g
	vec a = (g[0] + g[2]) * (-1.0f / 6), b = g[1] * (1.0f / 6);
	vec c = g[0] * (1.0f / 24) + g[2] * (1.0f / 6), d = g[1] * (1.0f / 12);
	o[0] = g[0] * 0.25f, o[1] = a - b, o[2] = a + b, o[3] = c + d, o[4] = c - d, o[5] = g[2];
}

static inline __attribute__((always_inline)) void mul_gt(const vec *u, vec *o) { // G^T u
	vec a = u[1] + u[2], b = u[2] - u[1], c = u[3] + u[4], d = u[3] - u[4];
	o[0] = u[0] * 0.25f - a * (1.0f / 6) + c * (1.0f / 24);
	o[1] = b * (1.0f / 6) + d * (1.0f / 12);
	o[2] = (c - a) * (1.0f / 6) + u[5];
}

#endif
