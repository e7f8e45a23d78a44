package ptxvm

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

// kernel runs code in blocks of threads. %r1 is the thread, %r2 the lane, %r3 the block. %rd1
// points to in, and %rd2 to out, which has 64 bytes for each thread of a block. %rd3 points to the
// thread's own bytes. 16 KB of shared memory begin at %r4.
func kernel(t *testing.T, code string, blocks, threads int, in []uint32) ([]uint32, error) {
	t.Helper()
	text := header + fmt.Sprintf(`.visible .entry k(.param .u64 in, .param .u64 out) .maxntid %d, 1, 1
{
.reg .pred %%p<10>; .reg .b32 %%r<40>; .reg .f32 %%f<40>; .reg .b64 %%rd<10>;
.shared .align 1024 .b8 mem[16384];
ld.param.u64 %%rd1, [in];
ld.param.u64 %%rd2, [out];
mov.u32 %%r1, %%tid.x;
mov.u32 %%r2, %%laneid;
mov.u32 %%r3, %%ctaid.x;
mul.wide.u32 %%rd3, %%r1, 64;
add.s64 %%rd3, %%rd3, %%rd2;
mov.u64 %%rd4, mem;
cvt.u32.u64 %%r4, %%rd4;
%s
ret;
}
`, threads, code)
	m, err := Parse("test", []byte(text))
	if err != nil {
		return nil, err
	}
	var mem Memory
	var bytes []byte
	for _, v := range in {
		bytes = binary.LittleEndian.AppendUint32(bytes, v)
	}
	from, to := mem.Alloc("in", len(bytes), 16), mem.Alloc("out", 64*threads, 16)
	if err := mem.Write(from, bytes); err != nil {
		return nil, err
	}
	if err := mem.Write(to, make([]byte, 64*threads)); err != nil {
		return nil, err
	}
	err = m.Run(Launch{Entry: "k", Grid: [3]int{blocks, 1, 1}, Block: [3]int{threads, 1, 1}, Params: [][]byte{
		binary.LittleEndian.AppendUint64(nil, from), binary.LittleEndian.AppendUint64(nil, to),
	}}, &mem)
	if err != nil {
		return nil, err
	}
	bytes = make([]byte, 64*threads)
	if err := mem.Read(to, bytes); err != nil {
		return nil, err
	}
	out := make([]uint32, 16*threads)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(bytes[4*i:])
	}
	return out, nil
}

// "shfl": the pseudocode of the manual, worked out for some lanes.
func TestShuffle(t *testing.T) {
	for _, c := range []struct {
		mode string
		b, c uint32
		want map[int]uint32 // by lane
	}{
		{"bfly", 1, 31, map[int]uint32{0: 1, 1: 0, 31: 30}},
		{"bfly", 16, 31, map[int]uint32{0: 16, 16: 0, 5: 21}},
		{"bfly", 8, 0x1807, map[int]uint32{0: 0, 3: 3}}, // segments of 8: outside, so their own
		{"idx", 5, 31, map[int]uint32{0: 5, 31: 5}},
		{"idx", 2, 0x181f, map[int]uint32{0: 2, 9: 10, 31: 26}},
		{"up", 1, 0, map[int]uint32{0: 0, 1: 0, 31: 30}},
		{"down", 2, 31, map[int]uint32{0: 2, 29: 31, 30: 30, 31: 31}},
	} {
		code := fmt.Sprintf("shfl.sync.%s.b32 %%r9, %%r2, %d, %d, 0xffffffff; st.global.u32 [%%rd3], %%r9;", c.mode, c.b, c.c)
		out, err := kernel(t, code, 1, 32, []uint32{0})
		if err != nil {
			t.Errorf("%s: %v", code, err)
			continue
		}
		for lane, want := range c.want {
			if got := out[16*lane]; got != want {
				t.Errorf("%s: lane %d gets %d, want %d", code, lane, got, want)
			}
		}
	}
}

// Threads that part meet again, in loops of different lengths too.
func TestDivergence(t *testing.T) {
	out, err := kernel(t, `
	and.b32 %r5, %r2, 3;
	mov.u32 %r6, 0;
loop:
	setp.eq.s32 %p1, %r5, 0;
	@%p1 bra done;
	add.s32 %r6, %r6, %r5;
	sub.s32 %r5, %r5, 1;
	bra.uni loop;
done:
	setp.lt.u32 %p2, %r2, 16;
	@%p2 bra low;
	add.s32 %r6, %r6, 100;
	bra.uni both;
low:
	add.s32 %r6, %r6, 200;
both:
	shfl.sync.bfly.b32 %r7, %r6, 16, 31, 0xffffffff;
	st.global.u32 [%rd3], %r7;`, 1, 32, []uint32{0})
	if err != nil {
		t.Fatal(err)
	}
	for lane := range 32 {
		want := uint32([]int{0, 1, 3, 6}[lane&3] + 100)
		if lane >= 16 {
			want += 100
		}
		if got := out[16*lane]; got != want {
			t.Errorf("lane %d: %d, want %d", lane, got, want)
		}
	}
}

// What concerns several threads, and is wrong.
func TestRaces(t *testing.T) {
	own := "shl.b32 %r5, %r1, 2; add.s32 %r5, %r5, %r4; xor.b32 %r6, %r1, 33; shl.b32 %r6, %r6, 2; add.s32 %r6, %r6, %r4; "
	for _, c := range []struct{ code, want string }{
		{own + "st.shared.u32 [%r5], %r1; bar.sync 0; ld.shared.u32 %r7, [%r6];", ""},
		{own + "st.shared.u32 [%r5], %r1; ld.shared.u32 %r7, [%r6];", "was never written"},
		{own + "st.shared.u32 [%r5], %r1; bar.sync 0; st.shared.u32 [%r5], %r1; ld.shared.u32 %r7, [%r6];", "with no barrier since"},
		{own + "st.shared.u32 [%r5], %r1; bar.sync 0; ld.shared.u32 %r7, [%r6]; st.shared.u32 [%r5], %r7;", "with no barrier since"},
		{own + "st.shared.u32 [%r4], %r1;", "wrote it, with no barrier since"},
		{own + "st.shared.u32 [%r5], %r1; bar.sync 0; ld.shared.v2.u32 {%r7, %r8}, [%r4+4];", "not aligned"},
		{own + "ld.shared.u32 %r7, [%r4+16384];", "outside of the block's shared memory"},
		{"st.global.u32 [%rd3], %r1; bar.sync 0; ld.global.u32 %r7, [%rd2];", ""},
		{"st.global.u32 [%rd3], %r1; ld.global.u32 %r7, [%rd2+128];", "with no barrier between"},
		{"st.global.u32 [%rd2], %r1;", "with no barrier between"},
		// Part of the warp:
		{"setp.lt.u32 %p1, %r2, 7; @%p1 bra out; bar.sync 0; bra end; out: bar.sync 0; end:", "waits here"},
		{"setp.lt.u32 %p1, %r2, 7; @%p1 ret; bar.sync 0;", ""}, // ended threads are not waited for
		{"setp.lt.u32 %p1, %r2, 7; @%p1 bra end; shfl.sync.bfly.b32 %r9, %r2, 1, 31, 0xffffffff; end: bar.sync 0;", "waits here"},
		{"setp.lt.u32 %p1, %r2, 8; @%p1 bra end; shfl.sync.bfly.b32 %r9, %r2, 1, 31, 0xffffff00; end: bar.sync 0;", ""},
		{"setp.lt.u32 %p1, %r2, 7; @%p1 bra end; shfl.sync.bfly.b32 %r9, %r2, 1, 31, 0xffffff80; end: bar.sync 0;", "from lane 6, which takes no part"},
		{"shfl.sync.bfly.b32 %r9, %r2, 1, 31, 0xffff;", "not among the members"},
		{"setp.lt.u32 %p1, %r2, 7; @%p1 bra.uni end; end:", "said to be uniform"},
		{"setp.lt.u32 %p1, %r1, 32; @%p1 ret; shfl.sync.bfly.b32 %r9, %r2, 1, 31, 0xffffffff;", ""},
		// Asynchronous copies:
		{own + "cp.async.ca.shared.global [%r5], [%rd1], 4; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r7, [%r5];", ""},
		{own + "cp.async.ca.shared.global [%r5], [%rd1], 4; cp.async.wait_all; bar.sync 0; ld.shared.u32 %r7, [%r6];", ""},
		{own + "cp.async.ca.shared.global [%r5], [%rd1], 4; cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r7, [%r5];", "under way"},
		{own + "cp.async.ca.shared.global [%r5], [%rd1], 4; cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r7, [%r5];", ""},
		{own + "cp.async.ca.shared.global [%r5], [%rd1], 4; cp.async.wait_group 0; ld.shared.u32 %r7, [%r5];", "under way"}, // never committed
		{own + "cp.async.ca.shared.global [%r5], [%rd1], 4; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r7, [%r6];", "was never written"},
		{own + "cp.async.ca.shared.global [%r5], [%rd1], 4; cp.async.wait_all; bar.sync 0; ld.shared.u32 %r7, [%r6]; cp.async.ca.shared.global [%r5], [%rd1], 4;", "under way"},
		{own + "cp.async.ca.shared.global [%r5], [%rd1+2], 4;", "not aligned"},
		{own + "cp.async.ca.shared.global [%r5], [%rd1+64], 4;", "offset 64 of buffer in"},
		{own + "mov.u32 %r9, 0; cp.async.ca.shared.global [%r5], [%rd1+64], 4, %r9;", ""}, // reads nothing
		{own + "mov.u32 %r9, 5; cp.async.ca.shared.global [%r5], [%rd1], 4, %r9;", "5 bytes to read"},
	} {
		_, err := kernel(t, c.code, 1, 64, make([]uint32, 16))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q in it", c.code, err, c.want)
		}
	}
}

// Blocks that hand data on: all of fence, barrier, atomic, barrier and fence.
func TestBlocks(t *testing.T) {
	steps := []string{
		"st.global.u32 [%rd5], %r1;",
		"fence.acq_rel.gpu;",
		"bar.sync 0;",
		"setp.eq.s32 %p1, %r1, 0; @%p1 atom.global.add.u32 %r9, [%rd2], 1;",
		"bar.sync 0;",
		"fence.acq_rel.gpu;",
		"setp.eq.s32 %p2, %r3, 1; @%p2 ld.global.u32 %r8, [%rd6];",
	}
	run := func(without int) error {
		code := `shl.b32 %r5, %r3, 2; mad.lo.s32 %r5, %r1, 64, %r5; cvt.u64.u32 %rd5, %r5; add.s64 %rd5, %rd5, %rd2; add.s64 %rd5, %rd5, 4;
			xor.b32 %r6, %r1, 1; mul.wide.u32 %rd6, %r6, 64; add.s64 %rd6, %rd6, %rd2; add.s64 %rd6, %rd6, 4;`
		for i, s := range steps {
			if i != without {
				code += s
			}
		}
		_, err := kernel(t, code, 2, 64, []uint32{0})
		return err
	}
	if err := run(-1); err != nil {
		t.Error(err)
	}
	for without := 1; without < len(steps)-1; without++ {
		if err := run(without); err == nil || !strings.Contains(err.Error(), "another block wrote it") {
			t.Errorf("without step %d: error %v", without, err)
		}
	}
}

// A copy of fewer bytes than its size has zeros behind.
func TestCopyFills(t *testing.T) {
	out, err := kernel(t, `
	shl.b32 %r5, %r1, 4; add.s32 %r5, %r5, %r4; shr.u32 %r6, %r1, 1;
	cp.async.cg.shared.global [%r5], [%rd1], 16, %r6;
	cp.async.commit_group; cp.async.wait_group 0;
	ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r5];
	st.global.v4.u32 [%rd3], {%r10, %r11, %r12, %r13};`, 1, 32, []uint32{0x04030201, 0x08070605, 0x0c0b0a09, 0x100f0e0d})
	if err != nil {
		t.Fatal(err)
	}
	for thread := range 32 {
		for i := range 16 {
			want := uint32(i + 1)
			if i >= thread/2 {
				want = 0
			}
			if got := out[16*thread+i/4] >> (8 * (i % 4)) & 0xff; got != want {
				t.Errorf("thread %d byte %d: %d, want %d", thread, i, got, want)
			}
		}
	}
}

// "ldmatrix": element (row, column) of matrix i is 1000i + 10 row + column.
func TestLoadMatrices(t *testing.T) {
	for _, trans := range []string{"", ".trans"} {
		out, err := kernel(t, `
	shl.b32 %r5, %r1, 4; add.s32 %r5, %r5, %r4;
	shr.u32 %r6, %r1, 3; and.b32 %r7, %r1, 7;
	mul.lo.s32 %r6, %r6, 1000; mad.lo.s32 %r6, %r7, 10, %r6; // of the row's first element
	mad.lo.s32 %r7, %r6, 0x10001, 0x10000;
	st.shared.u32 [%r5], %r7; add.s32 %r7, %r7, 0x20002;
	st.shared.u32 [%r5+4], %r7; add.s32 %r7, %r7, 0x20002;
	st.shared.u32 [%r5+8], %r7; add.s32 %r7, %r7, 0x20002;
	st.shared.u32 [%r5+12], %r7;
	bar.sync 0;
	ldmatrix.sync.aligned.m8n8.x4`+trans+`.shared.b16 {%r10,%r11,%r12,%r13}, [%r5];
	st.global.v4.u32 [%rd3], {%r10, %r11, %r12, %r13};`, 1, 32, []uint32{0})
		if err != nil {
			t.Fatal(err)
		}
		for lane := range 32 {
			for i := range 4 {
				for e := range 2 {
					row, col := lane/4, lane%4*2+e
					if trans != "" {
						row, col = col, row
					}
					if got, want := out[16*lane+i]>>(16*e)&0xffff, uint32(1000*i+10*row+col); got != want {
						t.Errorf("ldmatrix%s: lane %d, register %d, half %d: %d, want %d", trans, lane, i, e, got, want)
					}
				}
			}
		}
	}
}

// "mma": the operands spread by the manual's formulas for element i of a lane's
// fragment ("Matrix Fragments for mma.m16n8k8", ".m16n8k16"), the result gathered
// likewise, against the product by definition.
func TestMultiplyMatrices(t *testing.T) {
	type shape struct {
		name   string
		k      int
		na, nb int // elements of a lane
		bits   int
		a, b   func(lane, i int) (row, col int)
		to     func(float32) uint32
	}
	atRow := func(lane int, low bool) int {
		if low {
			return lane >> 2
		}
		return lane>>2 + 8
	}
	a16 := func(lane, i int) (int, int) {
		col := lane%4*2 + i&1
		if i >= 4 {
			col += 8
		}
		return atRow(lane, i < 2 || i >= 4 && i < 6), col
	}
	b16 := func(lane, i int) (int, int) {
		row := lane%4*2 + i&1
		if i >= 2 {
			row += 8
		}
		return row, lane >> 2
	}
	f16 := func(v float32) uint32 { return uint32(toHalf(v)) }
	for _, s := range []shape{
		{"m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 4, 16, a16, b16, f16},
		{"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 4, 16, a16, b16, func(v float32) uint32 { return uint32(toBfloat(v)) }},
		{"m16n8k8.row.col.f32.f16.f16.f32", 8, 4, 2, 16, a16, b16, f16},
		{"m16n8k8.row.col.f32.tf32.tf32.f32", 8, 4, 2, 32,
			func(lane, i int) (int, int) {
				col := lane % 4
				if i >= 2 {
					col += 4
				}
				return atRow(lane, i == 0 || i == 2), col
			},
			func(lane, i int) (int, int) {
				if i == 0 {
					return lane % 4, lane >> 2
				}
				return lane%4 + 4, lane >> 2
			}, toTF32},
	} {
		// Small numbers, so that all is exact and no two cells are alike.
		valueA := func(r, c int) float32 { return float32(r*3+c*5%7) - 20 }
		valueB := func(r, c int) float32 { return float32(r*2-c*3) / 4 }
		in := make([]uint32, 32*16)
		per := 32 / s.bits
		ra, rb := s.na/per, s.nb/per
		for lane := range 32 {
			for i := range s.na {
				in[16*lane+i/per] |= s.to(valueA(s.a(lane, i))) << (i % per * s.bits)
			}
			for i := range s.nb {
				in[16*lane+4+i/per] |= s.to(valueB(s.b(lane, i))) << (i % per * s.bits)
			}
			for i := range 4 {
				in[16*lane+8+i] = math.Float32bits(float32(lane*4 + i))
			}
		}
		out, err := kernel(t, `
	mul.wide.u32 %rd5, %r1, 64; add.s64 %rd5, %rd5, %rd1;
	ld.global.v4.u32 {%r10,%r11,%r12,%r13}, [%rd5];
	ld.global.v2.u32 {%r14,%r15}, [%rd5+16];
	ld.global.v4.f32 {%f10,%f11,%f12,%f13}, [%rd5+32];
	mma.sync.aligned.`+s.name+` {%f20,%f21,%f22,%f23}, {`+strings.Join([]string{"%r10", "%r11", "%r12", "%r13"}[:ra], ",")+`}, {`+strings.Join([]string{"%r14", "%r15"}[:rb], ",")+`}, {%f10,%f11,%f12,%f13};
	st.global.v4.f32 [%rd3], {%f20,%f21,%f22,%f23};`, 1, 32, in)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		for lane := range 32 {
			for i := range 4 {
				row, col := atRow(lane, i < 2), lane%4*2+i&1
				want := float32(lane*4 + i)
				for k := range s.k {
					want += valueA(row, k) * valueB(k, col)
				}
				if got := math.Float32frombits(out[16*lane+i]); got != want {
					t.Errorf("%s: lane %d register %d: %g, want %g", s.name, lane, i, got, want)
				}
			}
		}
	}
	_, err := kernel(t, `mov.f32 %f1, 0f00000000; mov.u32 %r5, 0x3f800001;
		mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f1,%f1,%f1}, {%r5,%r5,%r5,%r5}, {%r5,%r5}, {%f1,%f1,%f1,%f1};`, 1, 32, []uint32{0})
	if err == nil || !strings.Contains(err.Error(), "not tf32") {
		t.Errorf("float32 for tf32: error %v", err)
	}
}
