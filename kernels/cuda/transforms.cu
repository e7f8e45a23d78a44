// transforms.cu: the transforms of uint8 RGB images before augment: resample, shift, blur and
// colours. All arithmetic is of integers, or of floats that are not fused (build.sh compiles
// this file with -ffp-contract=off), so that the bytes are those of the loader's own.
//
// record: int32[n][words]; a transform's numbers begin at `at`, and word 3 of a sample says
// where a packed one begins (kernels/transforms.go has the names of the numbers).
#include "kd.h"

enum { TAPS = 16, TAP_WORDS = TAPS + 2, TILE_W = 32, TILE_H = 16, MAX_RADIUS = 15, PACKING = 16 };

#define EACH_IMAGE(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x, i##_n = (n), i##_step = gridDim.x * blockDim.x; i < i##_n; i += i##_step)

// The filters of a resample: for each sample its out_w columns and its out_h rows, as first
// input, count and weights in units of 2^-22.
KD_KERNEL __launch_bounds__(256) resample_taps(const int *record, int *table, int n, int out_h, int out_w, int words, int at) {
  EACH_IMAGE(t, n * (out_w + out_h)) {
    int img = t / (out_w + out_h), i = t % (out_w + out_h);
    const int *p = record + (long)img * words + at;
    bool row = i >= out_w;
    int in = row ? p[3] : p[2], out = row ? p[5] : p[4];
    i = row ? i - out_w + p[7] : i + p[6];
    int wide = 2 * (in > out ? in : out), centre = (2 * i + 1) * in;
    int lo = centre - wide - out;
    lo = lo > 0 ? lo / (2 * out) : 0;
    while (lo < in - 1 && (2 * lo + 1) * out <= centre - wide) lo++;
    int count = 0;
    unsigned long long sum = 0;
    for (int k = lo; k < in && count < TAPS; k++) {
      int d = (2 * k + 1) * out - centre;
      if (d >= wide) break;
      sum += (unsigned)(wide - (d < 0 ? -d : d));
      count++;
    }
    int *to = table + (long)t * TAP_WORDS;
    to[0] = lo;
    to[1] = count;
    for (int k = 0; k < count; k++) {
      int d = (2 * (lo + k) + 1) * out - centre;
      to[2 + k] = (int)((((unsigned long long)(unsigned)(wide - (d < 0 ? -d : d)) << 23) + sum) / (2 * sum));
    }
  }
}
KD_ENTRY(resample_taps)

KD_FN int byte_of(int sum) {
  sum >>= 22;
  return sum > 255 ? 255 : sum;
}

// x: samples of `in` bytes, or packed; y: uint8[n][out_h][out_w][3]. A thread has a pixel.
KD_KERNEL __launch_bounds__(256)
resample(const unsigned char *x, const int *record, const int *table, unsigned char *y, int n, int out_h, int out_w, int in, int packed, int words, int at) {
  EACH_IMAGE(i, n * out_h * out_w) {
    int col = i % out_w, row = i / out_w % out_h, img = i / out_w / out_h;
    const int *all = record + (long)img * words, *p = all + at;
    int from = p[10] ? out_w - 1 - col : col; // mirrored
    const int *across = table + ((long)img * (out_w + out_h) + from) * TAP_WORDS;
    const int *down = table + ((long)img * (out_w + out_h) + out_w + row) * TAP_WORDS;
    const unsigned char *src = x + (packed ? (long)all[3] * PACKING : (long)img * in);
    int sum[3] = {1 << 21, 1 << 21, 1 << 21};
    for (int r = 0; r < down[1]; r++) {
      const unsigned char *px = src + ((long)(down[0] + r - p[12]) * p[13] + across[0] - p[11]) * 3;
      int along[3] = {1 << 21, 1 << 21, 1 << 21};
      for (int k = 0; k < across[1]; k++, px += 3) {
        int w = across[2 + k];
        for (int c = 0; c < 3; c++) along[c] += px[c] * w;
      }
      int w = down[2 + r];
      for (int c = 0; c < 3; c++) sum[c] += byte_of(along[c]) * w;
    }
    for (int c = 0; c < 3; c++) y[(long)i * 3 + c] = (unsigned char)byte_of(sum[c]);
  }
}
KD_ENTRY(resample)

// x: uint8[n][h][w][3], y: uint8[n][out_h][out_w][3].
KD_KERNEL __launch_bounds__(256)
shift(const unsigned char *x, const int *record, unsigned char *y, int n, int h, int w, int out_h, int out_w, int words, int at) {
  EACH_IMAGE(i, n * out_h * out_w) {
    int col = i % out_w, row = i / out_w % out_h, img = i / out_w / out_h;
    const int *p = record + (long)img * words + at;
    if (p[2]) col = out_w - 1 - col;
    if (p[3]) row = out_h - 1 - row;
    row += p[0];
    col += p[1];
    bool in = (unsigned)row < (unsigned)h && (unsigned)col < (unsigned)w;
    const unsigned char *px = x + ((long)img * h * w + (in ? row * w + col : 0)) * 3;
    for (int c = 0; c < 3; c++) y[(long)i * 3 + c] = in ? px[c] : 0;
  }
}
KD_ENTRY(shift)

// mirror is the place among n that stands for i, which may lie outside.
KD_FN int mirror(int i, int n) {
  if (n == 1) return 0;
  while (i < 0 || i >= n) i = i < 0 ? -i : 2 * n - 2 - i;
  return i;
}

// A block blurs a tile: along rows into shared memory, those above and below the tile too, then
// along columns. Grid: tiles of an image, images.
KD_KERNEL __launch_bounds__(256)
blur(const unsigned char *x, const int *record, unsigned char *y, int h, int w, int taps, int words, int at) {
  KD_SHARED(float, mid, (TILE_H + 2 * MAX_RADIUS) * TILE_W * 3);
  KD_SHARED(float, weight, MAX_RADIUS + 1);
  int tiles = (w + TILE_W - 1) / TILE_W, radius = taps / 2;
  int left = (int)blockIdx.x % tiles * TILE_W, top = (int)blockIdx.x / tiles * TILE_H;
  x += (long)blockIdx.y * h * w * 3;
  y += (long)blockIdx.y * h * w * 3;
  if ((int)threadIdx.x <= radius) weight[threadIdx.x] = kd_bits((uint32_t)record[(int)blockIdx.y * words + at + (int)threadIdx.x]);
  kd_sync();
  for (int i = threadIdx.x; i < (TILE_H + 2 * radius) * TILE_W * 3; i += blockDim.x) {
    int c = i % 3, col = left + i / 3 % TILE_W, row = mirror(top + i / 3 / TILE_W - radius, h);
    float sum = 0.f;
    if (col < w) {
      const unsigned char *px = x + (long)row * w * 3 + c;
      sum = weight[0] * (float)px[3 * col];
      for (int k = 1; k <= radius; k++) sum += weight[k] * ((float)px[3 * mirror(col - k, w)] + (float)px[3 * mirror(col + k, w)]);
    }
    mid[i] = sum;
  }
  kd_sync();
  for (int i = threadIdx.x; i < TILE_H * TILE_W * 3; i += blockDim.x) {
    int col = left + i / 3 % TILE_W, row = top + i / 3 / TILE_W;
    if (col >= w || row >= h) continue;
    const float *m = mid + i + radius * TILE_W * 3;
    float sum = weight[0] * m[0];
    for (int k = 1; k <= radius; k++) sum += weight[k] * (m[-k * TILE_W * 3] + m[k * TILE_W * 3]);
    y[((long)row * w + col) * 3 + i % 3] = (unsigned char)(int)(sum + 0.5f);
  }
}
KD_ENTRY(blur)

enum { NONE, BRIGHTNESS, CONTRAST, SATURATION, HUE, POSTERIZE, SOLARIZE, AUTOCONTRAST, EQUALIZE, SHARPNESS, AFFINE };

KD_FN int luma(const unsigned char *px) { return (px[0] * 19595 + px[1] * 38470 + px[2] * 7471 + (1 << 15)) >> 16; }

KD_FN int blend(int from, int to, float f) {
  float v = (float)from + f * (float)(to - from);
  return v <= 0.f ? 0 : v >= 255.f ? 255 : (int)v;
}

KD_FN void turn_hue(unsigned char *px, int by) {
  int r = px[0], g = px[1], b = px[2];
  int most = r > g ? r : g, least = r < g ? r : g;
  most = most > b ? most : b;
  least = least < b ? least : b;
  if (most == least) return;
  int d = most - least;
  int at = most == r ? g - b : most == g ? 2 * d + b - r : 4 * d + r - g; // in sixths of d
  if (at < 0) at += 6 * d;
  int h = (255 * at / (6 * d) + by) & 255, s = 255 * d / most, sixth = 6 * h / 255 % 6, f = 6 * h % 255;
  int p = (2 * most * (255 - s) + 255) / 510;
  int q = (2 * most * (65025 - s * f) + 65025) / 130050;
  int t = (2 * most * (65025 - s * (255 - f)) + 65025) / 130050;
  px[0] = (unsigned char)(sixth == 0 || sixth == 5 ? most : sixth == 1 ? q : sixth == 4 ? t : p);
  px[1] = (unsigned char)(sixth == 1 || sixth == 2 ? most : sixth == 0 ? t : sixth == 3 ? q : p);
  px[2] = (unsigned char)(sixth == 3 || sixth == 4 ? most : sixth == 2 ? t : sixth == 5 ? q : p);
}

// A block has an image, and a thread the same pixels of it all along. Grid: images.
KD_KERNEL __launch_bounds__(256) colours(const unsigned char *x, const int *record, unsigned char *y, int h, int w, int words, int at) {
  KD_SHARED(uint32_t, count, 3 * 256);
  KD_SHARED(uint32_t, table, 3 * 256);
  KD_SHARED(uint32_t, grey, 1);
  int n = h * w;
  x += (long)blockIdx.x * n * 3;
  y += (long)blockIdx.x * n * 3;
  const int *p = record + ((int)blockIdx.x * words + at);
  if (p[0] == AFFINE) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      int row = i / w, col = i % w;
      int sx = (p[4] + row * p[3] + col * p[2]) >> 16, sy = (p[7] + row * p[6] + col * p[5]) >> 16;
      bool in = (unsigned)sx < (unsigned)w && (unsigned)sy < (unsigned)h;
      for (int c = 0; c < 3; c++) y[3 * (long)i + c] = in ? x[3 * ((long)sy * w + sx) + c] : 0;
    }
    return;
  }
  if (p[0] == SHARPNESS) {
    float f = kd_bits((uint32_t)p[1]);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      int row = i / w, col = i % w;
      bool border = row == 0 || row == h - 1 || col == 0 || col == w - 1;
      for (int c = 0; c < 3; c++) {
        const unsigned char *px = x + 3 * (long)i + c;
        int v = px[0];
        if (!border) {
          int sum = 4 * v;
          for (int r = -1; r <= 1; r++) sum += px[3 * r * w - 3] + px[3 * r * w] + px[3 * r * w + 3];
          v = blend((2 * sum + 13) / 26, v, f);
        }
        y[3 * (long)i + c] = (unsigned char)v;
      }
    }
    return;
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    for (int c = 0; c < 3; c++) y[3 * (long)i + c] = x[3 * (long)i + c];
  for (int step = 0; step < 8; step += 2) {
    int what = p[step], by = p[step + 1];
    float f = kd_bits((uint32_t)by);
    if (what == NONE) continue;
    if (what == SATURATION || what == HUE) {
      for (int i = threadIdx.x; i < n; i += blockDim.x) {
        unsigned char *px = y + 3 * (long)i;
        if (what == HUE) {
          turn_hue(px, by);
          continue;
        }
        int l = luma(px);
        for (int c = 0; c < 3; c++) px[c] = (unsigned char)blend(l, px[c], f);
      }
      continue;
    }
    kd_sync(); // the table of the step before is no longer read
    if (what == CONTRAST || what == AUTOCONTRAST || what == EQUALIZE) {
      for (int i = threadIdx.x; i < 3 * 256; i += blockDim.x) count[i] = 0;
      if (threadIdx.x == 0) grey[0] = 0;
      kd_sync();
      uint32_t sum = 0;
      for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const unsigned char *px = y + 3 * (long)i;
        sum += (uint32_t)luma(px);
        if (what != CONTRAST)
          for (int c = 0; c < 3; c++) kd_shared_add(count + 256 * c + px[c], 1);
      }
      kd_shared_add(grey, sum);
      kd_sync();
    }
    if (what == EQUALIZE || what == AUTOCONTRAST) {
      if (threadIdx.x < 3) { // a channel each
        const uint32_t *of = count + 256 * threadIdx.x;
        int lo = 255, hi = 0, last = 0;
        for (int v = 0; v < 256; v++)
          if (of[v]) lo = v < lo ? v : lo, hi = v, last = (int)of[v];
        int each = (n - last) / 255, sum = each / 2;
        for (int v = 0; v < 256; v++) {
          int out = v;
          if (what == EQUALIZE) {
            if (each > 0) out = sum / each;
            sum += (int)of[v];
          } else if (hi > lo) {
            out = (v > lo ? v - lo : 0) * 255 / (hi - lo);
          }
          table[256 * threadIdx.x + v] = (uint32_t)(out > 255 ? 255 : out);
        }
      }
    } else {
      int mean = what == CONTRAST ? (int)((2ull * grey[0] + (unsigned)n) / (2ull * (unsigned)n)) : 0;
      for (int i = threadIdx.x; i < 3 * 256; i += blockDim.x) {
        int v = i % 256;
        if (what == BRIGHTNESS) v = blend(0, v, f);
        if (what == CONTRAST) v = blend(mean, v, f);
        if (what == POSTERIZE) v &= ~((1 << (8 - by)) - 1);
        if (what == SOLARIZE && (float)v >= f) v = 255 - v;
        table[i] = (uint32_t)v;
      }
    }
    kd_sync();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
      for (int c = 0; c < 3; c++) y[3 * (long)i + c] = (unsigned char)table[256 * c + y[3 * (long)i + c]];
  }
}
KD_ENTRY(colours)
