package ptxvm

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// digit is one step of a layout: so many places, so far apart.
type digit struct{ size, stride int }

// walk evaluates a nested layout ((a,b,..):(x,y,..)): the index in mixed digits,
// the first one fastest, times the strides.
func walk(index int, layout ...digit) int {
	off := 0
	for _, d := range layout {
		off += index % d.size * d.stride
		index /= d.size
	}
	return off
}

// The canonical layouts of the manual's "Strides" section, in elements of 16 bits
// (T is 8): where element (row, k) of an operand is.
var canonical16 = []struct {
	name    string
	mode    uint64 // of the descriptor
	swizzle int    // bits
	major   bool   // along the rows
	row, k  func(leading, stride int) []digit
}{
	{"K-major", 0, 0, false,
		func(lbo, sbo int) []digit { return []digit{{8, 8}, {32, sbo}} }, func(lbo, sbo int) []digit { return []digit{{8, 1}, {2, lbo}} }},
	{"K-major, 32 bytes", 3, 1, false,
		func(lbo, sbo int) []digit { return []digit{{8, 16}, {32, sbo}} }, func(lbo, sbo int) []digit { return []digit{{8, 1}, {2, 8}} }},
	{"K-major, 64 bytes", 2, 2, false,
		func(lbo, sbo int) []digit { return []digit{{8, 32}, {32, sbo}} }, func(lbo, sbo int) []digit { return []digit{{8, 1}, {2, 8}} }},
	{"K-major, 128 bytes", 1, 3, false,
		func(lbo, sbo int) []digit { return []digit{{8, 64}, {32, sbo}} }, func(lbo, sbo int) []digit { return []digit{{8, 1}, {2, 8}} }},
	{"MN-major", 0, 0, true,
		func(lbo, sbo int) []digit { return []digit{{8, 1}, {32, sbo}} }, func(lbo, sbo int) []digit { return []digit{{8, 8}, {2, lbo}} }},
	{"MN-major, 32 bytes", 3, 1, true,
		func(lbo, sbo int) []digit { return []digit{{8, 1}, {2, 8}, {16, lbo}} }, func(lbo, sbo int) []digit { return []digit{{8, 16}, {2, sbo}} }},
	{"MN-major, 64 bytes", 2, 2, true,
		func(lbo, sbo int) []digit { return []digit{{8, 1}, {4, 8}, {8, lbo}} }, func(lbo, sbo int) []digit { return []digit{{8, 32}, {2, sbo}} }},
	{"MN-major, 128 bytes", 1, 3, true,
		func(lbo, sbo int) []digit { return []digit{{8, 1}, {8, 8}, {4, lbo}} }, func(lbo, sbo int) []digit { return []digit{{8, 64}, {2, sbo}} }},
}

// fill is a kernel's beginning: thread i copies words i, i+128, ... of in to shared
// memory; accumulators f0 to f7 are the thread.
const fill = `
	shl.b32 %r5, %r1, 2; cvt.u64.u32 %rd5, %r5; add.s64 %rd5, %rd5, %rd1; add.s32 %r5, %r5, %r4; mov.u32 %r6, 0;
copy:
	ld.global.u32 %r7, [%rd5]; st.shared.u32 [%r5], %r7;
	add.s64 %rd5, %rd5, 512; add.s32 %r5, %r5, 512; add.s32 %r6, %r6, 1;
	setp.lt.s32 %p1, %r6, 32; @%p1 bra copy;
	cvt.rn.f32.u32 %f0, %r1; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
	mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0; mov.f32 %f7, %f0;
	ld.global.u64 %rd6, [%rd1+16368]; ld.global.u64 %rd7, [%rd1+16376];
	cvt.u64.u32 %rd4, %r4; shr.u64 %rd4, %rd4, 4; add.s64 %rd6, %rd6, %rd4; add.s64 %rd7, %rd7, %rd4;
`

const ready = "fence.proxy.async.shared::cta; bar.sync 0; wgmma.fence.sync.aligned;"

func product64x16(flags string) string {
	return "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, %rd6, %rd7, " + flags + ";\n"
}

const finish = `
	wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
	st.global.v4.f32 [%rd3], {%f0,%f1,%f2,%f3}; st.global.v4.f32 [%rd3+16], {%f4,%f5,%f6,%f7};
`

// descriptor: the start is added by the kernel.
func descriptor(offset, leading, stride int, mode uint64) uint64 {
	return uint64(offset>>4) | uint64(leading*2>>4)<<16 | uint64(stride*2>>4)<<32 | mode<<62
}

func TestWarpgroupLayouts(t *testing.T) {
	valueA := func(r, k int) float32 { return float32((r*7+k*3)%32) - 13 }
	valueB := func(c, k int) float32 { return float32((c*5+k*11)%16) - 4 }
	const atB = 8192
	for i, la := range canonical16 {
		lb := canonical16[(i*3+1)%len(canonical16)]
		in := make([]uint32, 4096)
		put := func(at, elem int, v float32) {
			in[(at+2*elem)/4] |= uint32(toHalf(v)) << (elem % 2 * 16)
		}
		swizzled := func(elem, bits int) int { // of an address in bytes; the parts begin at multiples of 1024
			b := 2 * elem
			return (b ^ b>>7&(1<<bits-1)<<4) / 2
		}
		// Strides in elements: the two parts must not overlap.
		strides := func(major bool, mode uint64) (int, int) {
			if !major && mode == 0 || major && mode == 0 {
				return 2048, 64 // 8 groups of rows of 64, then the other half of k
			}
			if major {
				return 1024, 512
			}
			return 8, 512
		}
		la1, la2 := strides(la.major, la.mode)
		lb1, lb2 := strides(lb.major, lb.mode)
		for k := range 16 {
			for r := range 64 {
				put(0, swizzled(walk(r, la.row(la1, la2)...)+walk(k, la.k(la1, la2)...), la.swizzle), valueA(r, k))
			}
			for c := range 16 {
				put(atB, swizzled(walk(c, lb.row(lb1, lb2)...)+walk(k, lb.k(lb1, lb2)...), lb.swizzle), valueB(c, k))
			}
		}
		for j, d := range []uint64{descriptor(0, la1, la2, la.mode), descriptor(atB, lb1, lb2, lb.mode)} {
			in[4092+2*j], in[4093+2*j] = uint32(d), uint32(d>>32)
		}
		flags := fmt.Sprintf("1, 1, -1, %d, %d", b2u(la.major), b2u(lb.major))
		out, err := kernel(t, fill+ready+product64x16(flags)+finish, 1, 128, in)
		if err != nil {
			t.Errorf("%s by %s: %v", la.name, lb.name, err)
			continue
		}
		for thread := range 128 {
			for i := range 8 {
				// "Matrix fragments for wgmma": accumulator d.
				warp, lane := thread/32, thread%32
				row, col := warp*16+lane/4, i>>2*8+lane%4*2+i&1
				if i&2 != 0 {
					row += 8
				}
				want := float32(thread)
				for k := range 16 {
					want -= valueA(row, k) * valueB(col, k)
				}
				if got := math.Float32frombits(out[16*thread+i]); got != want {
					t.Fatalf("%s by %s: thread %d register %d is %g, want %g", la.name, lb.name, thread, i, got, want)
				}
			}
		}
	}
}

func TestWarpgroupOrder(t *testing.T) {
	in := make([]uint32, 4096)
	for j, d := range []uint64{descriptor(0, 8, 512, 1), descriptor(8192, 8, 512, 1)} {
		in[4092+2*j], in[4093+2*j] = uint32(d), uint32(d>>32)
	}
	const flags = "1, 1, 1, 0, 0"
	for _, c := range []struct{ name, code, want string }{
		{"as it should be", ready + product64x16(flags) + product64x16(flags) + finish, ""},
		{"no accumulation", "bar.sync 0;" + ready + product64x16("0, 1, 1, 0, 0") + finish, ""},
		{"no proxy fence", "bar.sync 0; wgmma.fence.sync.aligned;" + product64x16(flags) + finish, "passed no fence.proxy.async"},
		{"the fence behind the barrier", "bar.sync 0; fence.proxy.async.shared::cta; wgmma.fence.sync.aligned;" + product64x16(flags) + finish, "passed no fence.proxy.async"},
		{"no barrier", "fence.proxy.async.shared::cta; wgmma.fence.sync.aligned;" + product64x16(flags) + finish, "and barrier since"},
		{"no fence of the accumulators", "fence.proxy.async.shared::cta; bar.sync 0;" + product64x16(flags) + finish, "no wgmma.fence since"},
		{"no wait", ready + product64x16(flags) + "wgmma.commit_group.sync.aligned; st.global.f32 [%rd3], %f0;", "never given a value"},
		{"no commit", ready + product64x16(flags) + "wgmma.wait_group.sync.aligned 0; st.global.f32 [%rd3], %f0;", "never given a value"},
		{"a group too few", ready + product64x16(flags) + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1; st.global.f32 [%rd3], %f0;", "never given a value"},
		{"an accumulator written", ready + product64x16(flags) + "mov.f32 %f3, 0f00000000;" + finish, "while its product was under way"},
		{"shared memory written", ready + product64x16(flags) + "st.shared.u32 [%r4], %r1;" + finish, "a product under way reads it"},
		{"and written behind the wait, without a barrier", ready + product64x16(flags) + "setp.eq.s32 %p1, %r1, 0;" + finish + "@%p1 st.shared.u32 [%r4], %r1;", "several threads read it"},
		{"and with one", ready + product64x16(flags) + "setp.eq.s32 %p1, %r1, 0;" + finish + "bar.sync 0; @%p1 st.shared.u32 [%r4], %r1;", ""},
		{"descriptors differ between lanes", ready + "cvt.u64.u32 %rd8, %r2; add.s64 %rd6, %rd6, %rd8;" + product64x16(flags) + finish, "differs between lanes"},
		{"and between warps", ready + "shr.u32 %r8, %r1, 5; cvt.u64.u32 %rd8, %r8; add.s64 %rd6, %rd6, %rd8;" + product64x16(flags) + finish, "of another of its warpgroup"},
		{"a base offset", ready + "or.b64 %rd6, %rd6, 562949953421312;" + product64x16(flags) + finish, "with an offset"},
		{"part of a warp", ready + "setp.eq.s32 %p1, %r2, 0; @%p1 ret;" + product64x16(flags) + finish, "a lane has ended"},
	} {
		_, err := kernel(t, fill+c.code, 1, 128, in)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q in it", c.name, err, c.want)
		}
	}
}
