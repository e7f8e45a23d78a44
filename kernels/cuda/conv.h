// conv.h: the three convolutions as matrix products, and how their operands are
// gathered from the tensors ("implicit GEMM": no im2col in memory).
//
//   forward          y[npq, k]   = x[npq, rsc]  * w[k, rsc]^T
//   backward data    dx[nhw, c]  = dy[nhw, rsk] * w[rsk, c]
//   backward weight  dw[k, rsc]  = dy[npq, k]^T * x[npq, rsc]
//
// An operand gives a thread of a block its N places in each tile. at(i) is the address of V consecutive
// elements. Where zeros belong it is not ok, and no address to read at. next moves to the tile BK further
// along the product's depth. A tile's thread t has column t % (columns/V), in vectors, and rows t /
// (columns/V) + i*step: along the depth for "deep" operands (elements consecutive in depth), else along
// the width.
//
// The conditions are joined with &, so that no branch comes of them.
//
// x is NHWC, w KRSC, y and dy NPQK. Offsets are 32-bit: the planner refuses more.
//
// The depth may be split over blocks ("split K"). The blocks of each blockIdx.z sum a part of it,
// in tiles from the given one on, into parts[z]. A second launch (reduce.cu) adds the parts in
// their order.
#pragma once
#include "kd.h"

// Types to compile: a module has those of one type.
#define KD_FP32 1
#define KD_TF32 2
#define KD_FP16 4
#define KD_BF16 8
#ifndef KD_TYPES
#define KD_TYPES 15
#endif

struct conv {
  int n, h, w, c, k, r, s, p, q, stride, pad;
  KD_METHOD int taps() const { return r * s; }
  KD_METHOD int depth() const { return r * s * c; }
};
#define CONV_PARAMS int gn, int gh, int gw, int gc, int gk, int gr, int gs, int gp, int gq, int stride, int pad
#define CONV_ARGS conv{gn, gh, gw, gc, gk, gr, gs, gp, gq, stride, pad}

// Blocks run over the columns (output channels) first, so that those which run
// together read the same pixels.
struct block_tile {
  int m0, n0;
  KD_METHOD block_tile(int bm, int bn, int width) {
    int columns = (width + bn - 1) / bn;
    m0 = (int)blockIdx.x / columns * bm;
    n0 = (int)blockIdx.x % columns * bn;
  }
};

// The tiles of depth that a block of blockIdx.z sums: its share of all of them,
// none where there are more shares than tiles.
struct depth_part {
  int begin, tiles;
  KD_METHOD depth_part(int all) {
    int z = blockIdx.z, count = gridDim.z, each = all / count, more = all - each * count;
    begin = each * z + (z < more ? z : more);
    tiles = each + (z < more);
  }
};

enum { OUTSIDE = -(1 << 24) }; // a coordinate that no tap brings inside

// Forward's x: rows are output pixels, depth is (r, s, c). Deep.
template <class T, int V, int N, int BK> struct forward_x {
  static const bool cached = true;
  const T *x;
  int base[N], h[N], w[N]; // of the first tap
  int r, s, c, H, W, C, R, S;
  int dr, ds, dc; // BK on, in filter rows, columns and channels
  KD_METHOD forward_x(const T *x, const conv &g, int row, int step, int col, int tile = 0) : x(x), H(g.h), W(g.w), C(g.c), R(g.r), S(g.s) {
    int pq = g.p * g.q;
    KD_UNROLL
    for (int i = 0; i < N; i++) {
      int m = row + i * step, n = m / pq, rest = m - n * pq, p = rest / g.q, q = rest - p * g.q;
      h[i] = n < g.n ? p * g.stride - g.pad : OUTSIDE;
      w[i] = q * g.stride - g.pad;
      base[i] = n < g.n ? ((n * H + h[i]) * W + w[i]) * C : 0;
    }
    col += tile * BK;
    int tap = col / C;
    c = col - tap * C;
    r = tap / S;
    s = tap - r * S;
    tap = BK / C;
    dc = BK - tap * C;
    dr = tap / S;
    ds = tap - dr * S;
  }
  KD_METHOD const T *at(int i, bool &ok) const {
    ok = ((unsigned)(h[i] + r) < (unsigned)H) & ((unsigned)(w[i] + s) < (unsigned)W) & (r < R);
    return x + (base[i] + (r * W + s) * C + c);
  }
  KD_METHOD void next() {
    c += dc;
    bool over = c >= C;
    c -= over ? C : 0;
    s += ds + over;
    over = s >= S;
    s -= over ? S : 0;
    r += dr + over;
  }
};

// Forward's w: rows are output channels, depth is (r, s, c). Deep.
template <class T, int V, int N, int BK> struct forward_w {
  static const bool cached = true;
  const T *w;
  int row, step, col, K, depth;
  KD_METHOD forward_w(const T *w, const conv &g, int row, int step, int col, int tile = 0)
      : w(w), row(row), step(step), col(col + tile * BK), K(g.k), depth(g.depth()) {}
  KD_METHOD const T *at(int i, bool &ok) const {
    int k = row + i * step;
    ok = (k < K) & (col < depth);
    return w + (k * depth + col);
  }
  KD_METHOD void next() { col += BK; }
};

// The pixels of dx that the same taps reach: those with h % stride == a and
// w % stride == b (Fractionally strided convolution without its zeros). Row m is
// pixel (n, a + stride*i, b + stride*j); tap (u, v) is filter position
// (r0 + stride*u, s0 + stride*v) and output position (p0 - u, q0 - v). They are
// numbered by (r0, s0), so that those with the most taps come first: blocks that
// start last should be short.
struct phase {
  int a, b, rows, cols, r0, s0, nr, ns;
  KD_METHOD phase(const conv &g, int index) {
    r0 = index / g.stride;
    s0 = index - r0 * g.stride;
    int back = g.pad * (g.stride - 1); // -pad, but not negative
    a = (r0 + back) % g.stride;
    b = (s0 + back) % g.stride;
    rows = (g.h - a + g.stride - 1) / g.stride;
    cols = (g.w - b + g.stride - 1) / g.stride;
    nr = r0 < g.r ? (g.r - r0 + g.stride - 1) / g.stride : 0;
    ns = s0 < g.s ? (g.s - s0 + g.stride - 1) / g.stride : 0;
  }
  // m's pixel; false behind the last.
  KD_METHOD bool pixel(const conv &g, int m, int &n, int &h, int &w) const {
    int area = rows * cols;
    n = m / area;
    int rest = m - n * area, i = rest / cols;
    h = a + i * g.stride;
    w = b + (rest - i * cols) * g.stride;
    return n < g.n;
  }
};

// The element that row r of the tile at m0 starts with, or -1.
struct phase_row {
  const conv &g;
  const phase &f;
  int m0;
  KD_METHOD int operator()(int r) const {
    int n, h, w;
    return f.pixel(g, m0 + r, n, h, w) ? ((n * g.h + h) * g.w + w) * g.c : -1;
  }
};

// Where the depth of backward data stands: tap (u, v), then k in steps of BK; a
// tile never crosses a tap. The same in all threads.
template <int BK> struct tap_walk {
  int u, v, k, ns, K;
  KD_METHOD tap_walk(const phase &f, int K, int tile) : u(0), v(0), k(0), ns(f.ns), K(K) {
    if (tile == 0) return;
    int each = (K + BK - 1) / BK, tap = tile / each;
    k = (tile - tap * each) * BK;
    u = tap / ns;
    v = tap - u * ns;
  }
  KD_METHOD void next() {
    k += BK;
    bool over = k >= K;
    k = over ? 0 : k;
    v += over;
    over = v == ns;
    v = over ? 0 : v;
    u += over;
  }
  static KD_METHOD int tiles(const phase &f, int K) { return f.nr * f.ns * ((K + BK - 1) / BK); }
};

// Backward data's dy: rows are the pixels of a phase, depth is (tap, k). Deep.
template <class T, int V, int N, int BK> struct data_dy {
  static const bool cached = true;
  const T *dy;
  int base[N], p[N], q[N];
  int col, P, Q, K;
  tap_walk<BK> at_tap;
  KD_METHOD data_dy(const T *dy, const conv &g, const phase &f, int row, int step, int col, int tile = 0)
      : dy(dy), col(col), P(g.p), Q(g.q), K(g.k), at_tap(f, g.k, tile) {
    KD_UNROLL
    for (int i = 0; i < N; i++) {
      int n, h, w;
      bool in = f.pixel(g, row + i * step, n, h, w);
      p[i] = in ? (h + g.pad - f.r0) / g.stride : OUTSIDE;
      q[i] = (w + g.pad - f.s0) / g.stride;
      base[i] = in ? ((n * P + p[i]) * Q + q[i]) * K + col : 0;
    }
  }
  KD_METHOD const T *at(int i, bool &ok) const {
    ok = ((unsigned)(p[i] - at_tap.u) < (unsigned)P) & ((unsigned)(q[i] - at_tap.v) < (unsigned)Q) & (at_tap.k + col < K);
    return dy + (base[i] - (at_tap.u * Q + at_tap.v) * K + at_tap.k);
  }
  KD_METHOD void next() { at_tap.next(); }
};

// Backward data's w: rows are (tap, k), columns c. Wide.
template <class T, int V, int N, int BK> struct data_w {
  static const bool cached = true;
  const T *w;
  int row, step, col, r0, s0, stride, K, C, S, taps;
  tap_walk<BK> at_tap;
  KD_METHOD data_w(const T *w, const conv &g, const phase &f, int row, int step, int col, int tile = 0)
      : w(w), row(row), step(step), col(col), r0(f.r0), s0(f.s0), stride(g.stride), K(g.k), C(g.c), S(g.s), taps(g.taps()), at_tap(f, g.k, tile) {}
  KD_METHOD const T *at(int i, bool &ok) const {
    int k = at_tap.k + row + i * step, tap = (r0 + at_tap.u * stride) * S + s0 + at_tap.v * stride;
    ok = (k < K) & (col < C);
    return w + ((k * taps + tap) * C + col);
  }
  KD_METHOD void next() { at_tap.next(); }
};

// The output pixels of a block of backward weight: blockIdx.y takes a part.
struct pixel_range {
  int begin, end;
  KD_METHOD pixel_range(const conv &g, int per) {
    int all = g.n * g.p * g.q;
    begin = (int)blockIdx.y * per;
    end = begin + per < all ? begin + per : all;
  }
};

// Backward weight's dy: rows are output pixels from begin to end, columns k. Wide.
template <class T, int V, int N, int BK> struct weight_dy {
  static const bool cached = false;
  const T *dy;
  int row, step, col, K, end;
  KD_METHOD weight_dy(const T *dy, const conv &g, int begin, int end, int row, int step, int col) : dy(dy), row(begin + row), step(step), col(col), K(g.k), end(end) {}
  KD_METHOD const T *at(int i, bool &ok) const {
    int m = row + i * step;
    ok = (m < end) & (col < K);
    return dy + (m * K + col);
  }
  KD_METHOD void next() { row += BK; }
};

// Backward weight's x: rows are output pixels, columns (r, s, c). Wide.
template <class T, int V, int N, int BK> struct weight_x {
  static const bool cached = true;
  const T *x;
  int n[N], p[N], q[N]; // of the rows' output pixels
  int m, step, end;     // rows
  int dn, dp, dq;       // BK pixels on, in images, rows and columns
  int h, w, col;        // of the tap, without the pixel: r - pad, s - pad; channel, negative behind the last column
  int P, Q, H, W, C, stride;
  KD_METHOD weight_x(const T *x, const conv &g, int begin, int end, int row, int step, int column)
      : x(x), m(begin + row), step(step), end(end), P(g.p), Q(g.q), H(g.h), W(g.w), C(g.c), stride(g.stride) {
    int pq = P * Q;
    KD_UNROLL
    for (int i = 0; i < N; i++) {
      int at = m + i * step;
      n[i] = at / pq;
      at -= n[i] * pq;
      p[i] = at / Q;
      q[i] = at - p[i] * Q;
    }
    dn = BK / pq;
    dp = (BK - dn * pq) / Q;
    dq = BK - dn * pq - dp * Q;
    int tap = column / C, r = tap / g.s;
    h = r - g.pad;
    w = tap - r * g.s - g.pad;
    col = column < g.depth() ? column - tap * C : -V;
  }
  KD_METHOD const T *at(int i, bool &ok) const {
    int y = p[i] * stride + h, z = q[i] * stride + w;
    ok = (col >= 0) & (m + i * step < end) & ((unsigned)y < (unsigned)H) & ((unsigned)z < (unsigned)W);
    return x + (((n[i] * H + y) * W + z) * C + col);
  }
  KD_METHOD void next() {
    m += BK;
    KD_UNROLL
    for (int i = 0; i < N; i++) {
      q[i] += dq;
      p[i] += dp;
      n[i] += dn;
      bool over = q[i] >= Q;
      q[i] -= over ? Q : 0;
      p[i] += over;
      over = p[i] >= P;
      p[i] -= over ? P : 0;
      n[i] += over;
    }
  }
};
