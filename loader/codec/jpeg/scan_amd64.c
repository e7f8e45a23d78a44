#include "scan_amd64.h"

#include <string.h>

#include "block_amd64.h"

// The input, like bits in bits.go, but filled whenever there is room for a byte.
struct bits {
	uint64_t acc;
	int32_t n, pad, end;
	const uint8_t *b;
	int64_t pos, length;
};

enum { rst0 = 0xd0, rst7 = 0xd7, sof0 = 0xc0, bad_code = 17 };

// fill_slowly drops the 0 after each 0xff. At a marker it continues with zeros.
static __attribute__((noinline)) void fill_slowly(struct bits *r) {
	while (r->n < 56) {
		uint64_t c = 0;
		if (r->pos + 1 >= r->length) {
			r->pad += 8;
			r->end = 1;
		} else if (r->b[r->pos] != 0xff) {
			c = r->b[r->pos++];
		} else if (r->b[r->pos + 1] == 0) {
			c = 0xff;
			r->pos += 2;
		} else if (r->b[r->pos + 1] == 0xff) {
			r->pos++;
			continue;
		} else {
			r->pad += 8;
		}
		r->acc |= c << (56 - r->n);
		r->n += 8;
	}
}

// fill makes n 56 to 63.
INLINE void fill(struct bits *r) {
	if (r->pos + 8 <= r->length) {
		uint64_t v;
		memcpy(&v, r->b + r->pos, 8);
		v = __builtin_bswap64(v);
		if (__builtin_expect(((~v - 0x0101010101010101u) & v & 0x8080808080808080u) == 0, 1)) {
			r->acc |= v >> r->n;
			r->pos += (63 - r->n) >> 3;
			r->n |= 56;
			return;
		}
	}
	if (r->n < 56) {
		struct bits t = *r; // a copy, so that r stays in registers
		fill_slowly(&t);
		*r = t;
	}
}

static int32_t extend(int32_t v, int size) {
	int32_t low = (v >> (size - 1)) - 1;
	return v + (low & (int32_t)((UINT32_MAX << size) + 1));
}

// symbol reads a code.
INLINE int symbol(struct bits *r, const struct codes *t) {
	uint32_t e = t->look[r->acc >> (64 - look_bits)];
	int s = e & 255, length = (int)(e >> 8);
	if (__builtin_expect(e == 0, 0)) {
		uint32_t code = (uint32_t)(r->acc >> 48);
		s = 0;
		length = bad_code;
		for (int l = look_bits + 1; l <= 16; l++) {
			if (code < t->limit[l]) {
				s = t->symbol[(uint8_t)((int32_t)(code >> (16 - l)) + t->offset[l])];
				length = l;
				break;
			}
		}
	}
	r->acc <<= length;
	r->n -= length;
	return s;
}

// value reads the value of size bits, 1 to 15.
INLINE int32_t value(struct bits *r, int size) {
	int32_t v = extend((int32_t)(r->acc >> (64 - size)), size);
	r->acc <<= size;
	r->n -= size;
	return v;
}

INLINE void dc_value(struct bits *r, const struct codes *t, struct plane *c) {
	fill(r);
	int size = symbol(r, t);
	if (size > 0) c->pred = (int32_t)((uint32_t)c->pred + (uint32_t)value(r, size));
}

// Fields of the entries of pair and skip; see pairs.go.
INLINE int field(uint64_t e, int at, int bits) { return (int)(e >> at & ((1u << bits) - 1)); }
INLINE int bits_of(uint64_t e) { return field(e, 0, 6); }
INLINE int least_left(uint64_t e) { return field(e, 8, 8); }
INLINE int goes_on(uint64_t e) { return field(e, 16, 8); }

INLINE void take(struct bits *r, uint64_t e) {
	r->acc <<= e & 63;
	r->n -= bits_of(e);
}

// skip_block reads a block of which only the DC value counts.
INLINE void skip_block(struct bits *r, const struct codes *dc, const struct ac_table *ac, struct plane *c) {
	dc_value(r, dc, c);
	for (int k = 1; k < 64;) {
		fill(r);
		for (int i = 0; i < 3 && k < 64; i++) {
			uint32_t e = ac->skip[r->acc >> (64 - pair_bits)];
			if (__builtin_expect(k + least_left(e) > 64, 0)) {
				fill(r);
				int s = symbol(r, &ac->codes), size = s & 15;
				r->acc <<= size;
				r->n -= size;
				k += (s >> 4) + 1;
				if (size == 0 && s != 0xf0) k = 64;
				break;
			}
			take(r, e);
			k += goes_on(e);
		}
	}
}

// read_block reads a block, dequantizes and transforms it.
INLINE void read_block(struct bits *r, const struct codes *dc, const struct ac_table *ac, const uint16_t *q,
                       struct plane *c, uint8_t *out) {
	_Alignas(32) int16_t block[64 + 16]; // with room for values that do not exist
	dc_value(r, dc, c);
	int32_t flat = (int16_t)((uint32_t)c->pred * q[0]);
	fill(r);
	uint64_t e = ac->pair[r->acc >> (64 - pair_bits)];
	if (least_left(e) == 0) { // the end of the block
		take(r, e);
		gpustall_flat(out, c->stride, flat);
		return;
	}
	for (int i = 0; i < 64; i += 16) _mm256_store_si256((__m256i *)(block + i), _mm256_setzero_si256());
	for (int k = 1; k < 64; fill(r)) {
		for (int i = 0; i < 2 && k < 64; i++) {
			e = ac->pair[r->acc >> (64 - pair_bits)];
			if (__builtin_expect(k + least_left(e) > 64, 0)) {
				fill(r);
				int s = symbol(r, &ac->codes), size = s & 15;
				k += s >> 4;
				if (size > 0) {
					int at = k < 63 ? k : 63;
					block[zigzag[at]] = (int16_t)((uint32_t)value(r, size) * q[at]);
					k++;
				} else {
					k = s == 0xf0 ? k + 1 : 64;
				}
				break;
			}
			// The second value, as extend makes it; if it has no bits, it is 0.
			int size = field(e, 36, 4);
			uint64_t left = r->acc << field(e, 40, 4);
			int32_t v = (int32_t)(left >> 1 >> (63 - size));
			v += ~(int32_t)((int64_t)left >> 63) & (int32_t)((UINT32_MAX << size) + 1);
			take(r, e);
			int one = k + field(e, 24, 4), two = k + field(e, 28, 5);
			block[zigzag[one]] = (int16_t)((int16_t)(e >> 48) * q[one]);
			block[zigzag[two]] = (int16_t)(v * q[two]);
			k += goes_on(e);
		}
	}
	block[0] = (int16_t)flat;
	gpustall_inverse(block, out, c->stride);
}

// restart goes past a restart marker, want; see bits.go.
static int restart(struct bits *r, int want) {
	for (;; r->pos += 2) {
		int64_t i = r->pos;
		while (i + 1 < r->length && (r->b[i] != 0xff || r->b[i + 1] == 0 || r->b[i + 1] == 0xff)) i++;
		r->pos = i;
		r->acc = 0;
		r->n = r->pad = r->end = 0;
		if (i + 1 >= r->length) {
			r->end = 1;
			return 0;
		}
		int m = r->b[i + 1];
		if (m < sof0) continue;
		int ahead = (m - want) & 7;
		if (m < rst0 || m > rst7 || ahead == 1 || ahead == 2) return 0;
		if (ahead == 6 || ahead == 7) continue;
		r->pos += 2;
		return 1;
	}
}

AVX2 void gpustall_jpeg_scan(struct scan *s, const uint8_t *b, uint8_t *planes, const struct codes *dc,
                             const struct ac_table *ac, const uint16_t *quant) {
	struct bits r = {.b = b, .pos = s->pos, .length = s->length};
	// The rest is room for what is written past the last coefficient.
	uint16_t q[4][64 + 16] = {{0}};
	for (int i = 0; i < 4; i++) memcpy(q[i], quant + 64 * i, 128);
	int left = s->every, next = rst0, over = 0;
	for (int my = 0; my < s->rows && !r.end; my++) {
		for (int mx = 0; mx < s->across; mx++) {
			if (s->every > 0) {
				if (left == 0) {
					struct bits t = r;
					over = !restart(&t, next) && over;
					r = t;
					left = s->every;
					next = rst0 + ((next + 1) & 7);
					for (int i = 0; i < 4; i++) s->plane[i].pred = 0;
				}
				left--;
			}
			for (int i = 0; i < s->comps; i++) {
				struct plane *c = &s->plane[i];
				for (int v = 0; v < c->v; v++) {
					for (int h = 0; h < c->h; h++) {
						int x = mx * c->h + h, y = my * c->v + v;
						int wanted = x >= c->min_x && x < c->max_x && y >= c->min_y && y < c->max_y;
						uint8_t *out = planes + c->at + 8 * (y * c->stride + x);
						if (over) {
							if (wanted) gpustall_flat(out, c->stride, 0);
						} else if (wanted) {
							read_block(&r, dc + c->dc, ac + c->ac, q[c->q], c, out);
						} else {
							skip_block(&r, dc + c->dc, ac + c->ac, c);
						}
					}
				}
			}
			over = over || r.pad > r.n;
		}
		// This reads at least as far ahead as Go may have read.
		fill(&r);
	}
	s->pos = r.pos;
	s->end = r.end;
}
