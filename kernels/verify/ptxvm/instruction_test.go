package ptxvm

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

const header = ".version 8.0\n.target sm_90a\n.address_size 64\n"

// evaluate runs code in one thread. Registers 1 to 3 of each kind hold x, y and z: %rd
// in full, %r, %f and %rs cut to size, and %p whether the value is not zero. result
// names the register 9 whose contents evaluate returns.
func evaluate(t *testing.T, code, result string, in ...uint64) (uint64, error) {
	t.Helper()
	var b strings.Builder
	b.WriteString(header + ".visible .entry t(.param .u64 out, .param .u64 x1, .param .u64 x2, .param .u64 x3)\n{\n")
	b.WriteString(".reg .pred %p<10>; .reg .b16 %rs<10>; .reg .b32 %r<10>; .reg .f32 %f<10>; .reg .b64 %rd<10>;\nld.param.u64 %rd8, [out];\n")
	for i := 1; i <= 3; i++ {
		fmt.Fprintf(&b, "ld.param.u64 %%rd%d, [x%d];\ncvt.u32.u64 %%r%[1]d, %%rd%[1]d;\nmov.b32 %%f%[1]d, %%r%[1]d;\ncvt.u16.u32 %%rs%[1]d, %%r%[1]d;\nsetp.ne.s64 %%p%[1]d, %%rd%[1]d, 0;\n", i, i)
	}
	b.WriteString(code + "\n")
	size := 8
	switch result {
	case "%p9":
		b.WriteString("selp.b64 %rd9, 1, 0, %p9;\nst.global.b64 [%rd8], %rd9;\n")
	case "%rd9":
		b.WriteString("st.global.b64 [%rd8], %rd9;\n")
	case "%rs9":
		size = 2
		b.WriteString("st.global.b16 [%rd8], %rs9;\n")
	default:
		size = 4
		fmt.Fprintf(&b, "st.global.b32 [%%rd8], %s;\n", result)
	}
	b.WriteString("ret;\n}\n")
	m, err := Parse("test", []byte(b.String()))
	if err != nil {
		return 0, err
	}
	var mem Memory
	out := mem.Alloc("out", size, 8)
	params := [][]byte{binary.LittleEndian.AppendUint64(nil, out)}
	for i := range 3 {
		var v uint64
		if i < len(in) {
			v = in[i]
		}
		params = append(params, binary.LittleEndian.AppendUint64(nil, v))
	}
	if err := m.Run(Launch{Entry: "t", Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}, Params: params}, &mem); err != nil {
		return 0, err
	}
	got := make([]byte, 8)
	if err := mem.Read(out, got[:size]); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(got), nil
}

func f(v float64) uint64 { return uint64(math.Float32bits(float32(v))) }

type row struct {
	code, result string
	in           []uint64
	want         uint64
}

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		got, err := evaluate(t, r.code, r.result, r.in...)
		if err != nil {
			t.Errorf("%s: %v", r.code, err)
		} else if got != r.want {
			t.Errorf("%s of %#x = %#x, want %#x", r.code, r.in, got, r.want)
		}
	}
}

func u(v ...uint64) []uint64 { return v }

const m1 = math.MaxUint64 // -1

func TestIntegers(t *testing.T) {
	check(t, []row{
		{"add.s32 %r9, %r1, %r2;", "%r9", u(0xffffffff, 2), 1},
		{"add.s32 %r9, %r1, -5;", "%r9", u(3), 0xfffffffe},
		{"add.s64 %rd9, %rd1, %rd2;", "%rd9", u(0xffffffff, 2), 0x100000001},
		{"add.s16 %rs9, %rs1, 1;", "%rs9", u(0xffff), 0},
		{"sub.s32 %r9, %r1, %r2;", "%r9", u(2, 5), 0xfffffffd},
		{"sub.s64 %rd9, %rd1, %rd2;", "%rd9", u(2, 5), m1 - 2},
		{"mul.lo.s32 %r9, %r1, %r2;", "%r9", u(0x10001, 0x10001), 0x20001},
		{"mul.hi.u32 %r9, %r1, %r2;", "%r9", u(0xffffffff, 0xffffffff), 0xfffffffe},
		{"mul.hi.s32 %r9, %r1, %r2;", "%r9", u(0xffffffff, 0xffffffff), 0},
		{"mul.hi.s64 %rd9, %rd1, %rd2;", "%rd9", u(m1, 5), m1},
		{"mul.hi.u64 %rd9, %rd1, %rd2;", "%rd9", u(m1, 5), 4},
		{"mul.lo.s64 %rd9, %rd1, %rd2;", "%rd9", u(m1, 5), m1 - 4},
		{"mul.wide.s32 %rd9, %r1, 4;", "%rd9", u(0xffffffff), m1 - 3},
		{"mul.wide.u32 %rd9, %r1, 4;", "%rd9", u(0xffffffff), 0x3fffffffc},
		{"mad.lo.s32 %r9, %r1, %r2, %r3;", "%r9", u(7, 6, 0xffffffff), 41},
		{"mad.lo.s64 %rd9, %rd1, %rd2, %rd3;", "%rd9", u(7, 6, 8), 50},
		{"div.s32 %r9, %r1, %r2;", "%r9", u(0xfffffff9, 2), 0xfffffffd}, // -7/2 = -3
		{"div.u32 %r9, %r1, %r2;", "%r9", u(0xfffffff9, 2), 0x7ffffffc},
		{"rem.s32 %r9, %r1, %r2;", "%r9", u(0xfffffff9, 2), 0xffffffff},
		{"neg.s32 %r9, %r1;", "%r9", u(5), 0xfffffffb},
		{"neg.s64 %rd9, %rd1;", "%rd9", u(5), m1 - 4},
		{"abs.s32 %r9, %r1;", "%r9", u(0xfffffffb), 5},
		{"min.s32 %r9, %r1, %r2;", "%r9", u(0xffffffff, 1), 0xffffffff},
		{"min.u32 %r9, %r1, %r2;", "%r9", u(0xffffffff, 1), 1},
		{"max.s32 %r9, %r1, %r2;", "%r9", u(0xffffffff, 1), 1},
		{"bfe.u32 %r9, %r1, 4, 8;", "%r9", u(0x12345678), 0x67},
		{"bfe.u32 %r9, %r1, 28, 8;", "%r9", u(0xf2345678), 0xf},
		{"bfe.s32 %r9, %r1, 4, 4;", "%r9", u(0x12345698), 9 | 0xfffffff0},
		{"bfe.u32 %r9, %r1, 4, 0;", "%r9", u(0x12345678), 0},
		{"shl.b32 %r9, %r1, 4;", "%r9", u(0x12345678), 0x23456780},
		{"shl.b32 %r9, %r1, 32;", "%r9", u(1), 0},
		{"shl.b64 %rd9, %rd1, 32;", "%rd9", u(1), 1 << 32},
		{"shr.u32 %r9, %r1, 4;", "%r9", u(0x82345678), 0x08234567},
		{"shr.s32 %r9, %r1, 4;", "%r9", u(0x82345678), 0xf8234567},
		{"shr.s32 %r9, %r1, 99;", "%r9", u(0x82345678), 0xffffffff},
		{"shr.u64 %rd9, %rd1, 4;", "%rd9", u(m1), m1 >> 4},
		{"and.b32 %r9, %r1, %r2;", "%r9", u(12, 10), 8},
		{"or.b32 %r9, %r1, %r2;", "%r9", u(12, 10), 14},
		{"xor.b32 %r9, %r1, %r2;", "%r9", u(12, 10), 6},
		{"not.b32 %r9, %r1;", "%r9", u(12), 0xfffffff3},
		{"or.b64 %rd9, %rd1, %rd2;", "%rd9", u(1<<40, 1), 1<<40 | 1},
	})
}

func TestPredicates(t *testing.T) {
	check(t, []row{
		{"and.pred %p9, %p1, %p2;", "%p9", u(1, 0), 0},
		{"or.pred %p9, %p1, %p2;", "%p9", u(1, 0), 1},
		{"xor.pred %p9, %p1, %p2;", "%p9", u(1, 1), 0},
		{"not.pred %p9, %p1;", "%p9", u(0), 1},
		{"mov.pred %p9, -1;", "%p9", nil, 1},
		{"mov.pred %p9, 0;", "%p9", nil, 0},
		{"mov.u32 %r9, 1; @%p1 mov.u32 %r9, 2;", "%r9", u(0), 1},
		{"mov.u32 %r9, 1; @!%p1 mov.u32 %r9, 2;", "%r9", u(0), 2},
		{"setp.lt.s32 %p9, %r1, %r2;", "%p9", u(0xffffffff, 1), 1},
		{"setp.lt.u32 %p9, %r1, %r2;", "%p9", u(0xffffffff, 1), 0},
		{"setp.ge.s32 %p9, %r1, %r2;", "%p9", u(5, 5), 1},
		{"setp.gt.s32 %p9, %r1, %r2;", "%p9", u(5, 5), 0},
		{"setp.eq.s64 %p9, %rd1, %rd2;", "%p9", u(1<<32, 0), 0},
		{"setp.ne.s32 %p9, %r1, %r2;", "%p9", u(1<<32, 0), 0},
		{"setp.eq.b32 %p9, %r1, 1;", "%p9", u(1), 1},
		{"setp.lt.f32 %p9, %f1, %f2;", "%p9", u(f(-1), f(0)), 1},
		{"setp.eq.f32 %p9, %f1, %f2;", "%p9", u(f(0), f(math.Copysign(0, -1))), 1},
		{"setp.ge.f32 %p9, %f1, %f2;", "%p9", u(f(math.NaN()), f(0)), 0},
		{"setp.geu.f32 %p9, %f1, %f2;", "%p9", u(f(math.NaN()), f(0)), 1},
		{"setp.neu.f32 %p9, %f1, %f2;", "%p9", u(f(math.NaN()), f(0)), 1},
		{"setp.neu.f32 %p9, %f1, %f2;", "%p9", u(f(2), f(2)), 0},
		{"setp.ne.f32 %p9, %f1, %f2;", "%p9", u(f(math.NaN()), f(0)), 0},
		{"setp.num.f32 %p9, %f1, %f2;", "%p9", u(f(1), f(math.NaN())), 0},
		{"setp.nan.f32 %p9, %f1, %f2;", "%p9", u(f(1), f(math.NaN())), 1},
		{"setp.gt.f16 %p9, %rs1, %rs2;", "%p9", u(0x3c00, 0xc000), 1}, // 1 > -2
		{"setp.num.f16 %p9, %rs1, %rs1;", "%p9", u(0x7e00), 0},
		{"selp.b32 %r9, %r1, %r2, %p3;", "%r9", u(4, 5, 1), 4},
		{"selp.f32 %f9, %f1, 0f40000000, %p3;", "%f9", u(4, 5, 0), f(2)},
		{"selp.b16 %rs9, 32767, %rs1, %p3;", "%rs9", u(1, 0, 1), 32767},
		{"selp.b64 %rd9, %rd1, %rd2, %p3;", "%rd9", u(1<<40, 5, 1), 1 << 40},
		// What is not defined may be computed and dropped.
		{"add.f32 %f8, %f7, %f7; selp.f32 %f9, %f8, %f1, %p2;", "%f9", u(f(3), 0), f(3)},
	})
}

func TestFloats(t *testing.T) {
	const tiny = 0x1p-149
	nan := f(math.NaN())
	check(t, []row{
		{"add.f32 %f9, %f1, %f2;", "%f9", u(f(1), f(0x1p-24)), f(1)}, // a tie goes to even
		{"add.rn.f32 %f9, %f1, %f2;", "%f9", u(f(1), f(0x3p-24)), f(1 + 0x1p-22)},
		{"sub.f32 %f9, %f1, %f2;", "%f9", u(f(tiny*3), f(tiny)), f(tiny * 2)},
		{"mul.f32 %f9, %f1, %f2;", "%f9", u(f(1+0x1p-12), f(1+0x1p-12)), f(1 + 0x1p-11)},
		{"add.f32 %f9, %f1, %f2;", "%f9", u(f(math.Inf(1)), f(math.Inf(-1))), nan32},
		// 1 + 2^-11 + 2^-24 - 1: the product is not rounded.
		{"fma.rn.f32 %f9, %f1, %f2, %f3;", "%f9", u(f(1+0x1p-12), f(1+0x1p-12), f(-1)), f(0x1p-11 + 0x1p-24)},
		// 2^24 + 3 - 2^-30: just under the tie, which float64 cannot tell.
		{"fma.rn.f32 %f9, %f1, %f2, %f3;", "%f9", u(f(1+0x1p-15), f(1-0x1p-15), f(0x1p24+2)), f(0x1p24 + 2)},
		{"fma.rn.f32 %f9, %f1, %f2, %f3;", "%f9", u(f(1+0x1p-15), f(-1+0x1p-15), f(-0x1p24-2)), f(-0x1p24 - 2)},
		{"fma.rn.f32 %f9, %f1, %f2, %f3;", "%f9", u(f(1+0x1p-23), f(1-0x1p-23), f(0x1p-23)), f(1 + 0x1p-23)},
		{"fma.rn.f32 %f9, %f1, %f2, %f3;", "%f9", u(f(0x1p-12), f(0x1p-12), f(1+0x1p-23)), f(1 + 0x1p-22)},
		{"fma.rn.f32 %f9, %f1, %f2, %f3;", "%f9", u(f(0x1p-75), f(-0x1p-75), f(1+0x1p-23)), f(1 + 0x1p-23)},
		{"fma.rn.f32 %f9, %f1, %f2, %f3;", "%f9", u(f(0x1p-75), f(0x1p-75), f(0)), f(0)}, // half the least: to even
		{"fma.rn.f32 %f9, %f1, %f2, %f3;", "%f9", u(f(0x1p-75), f(0x1.8p-75), f(0)), f(tiny)},
		{"fma.rn.f32 %f9, %f1, %f2, %f3;", "%f9", u(f(0x1p127), f(2), f(0)), f(math.Inf(1))},
		{"fma.rn.f32 %f9, %f1, %f2, %f3;", "%f9", u(f(0), f(math.Inf(1)), f(0)), nan32},
		{"div.rn.f32 %f9, %f1, %f2;", "%f9", u(f(1), f(3)), 0x3eaaaaab},
		{"rcp.rn.f32 %f9, %f1;", "%f9", u(f(0)), f(math.Inf(1))},
		{"sqrt.rn.f32 %f9, %f1;", "%f9", u(f(2)), 0x3fb504f3},
		{"sqrt.rn.f32 %f9, %f1;", "%f9", u(f(-2)), nan32},
		{"neg.f32 %f9, %f1;", "%f9", u(f(0)), 0x80000000},
		{"abs.f32 %f9, %f1;", "%f9", u(f(-3)), f(3)},
		{"max.f32 %f9, %f1, %f2;", "%f9", u(nan, f(3)), f(3)},
		{"max.f32 %f9, %f1, %f2;", "%f9", u(nan, nan), nan32},
		{"max.f32 %f9, %f1, %f2;", "%f9", u(0x80000000, 0), 0},
		{"max.f32 %f9, %f1, %f2;", "%f9", u(0, 0x80000000), 0},
		{"min.f32 %f9, %f1, %f2;", "%f9", u(0, 0x80000000), 0x80000000},
		{"min.f32 %f9, %f1, %f2;", "%f9", u(f(1), f(-1)), f(-1)},
		{"ex2.approx.ftz.f32 %f9, %f1;", "%f9", u(f(3)), f(8)},
		{"ex2.approx.ftz.f32 %f9, %f1;", "%f9", u(f(-127)), 0}, // subnormal: flushed
		{"ex2.approx.ftz.f32 %f9, %f1;", "%f9", u(f(tiny)), f(1)},
		{"lg2.approx.ftz.f32 %f9, %f1;", "%f9", u(f(0.125)), f(-3)},
		{"lg2.approx.ftz.f32 %f9, %f1;", "%f9", u(f(tiny)), f(math.Inf(-1))},
		{"add.f16 %rs9, %rs1, %rs2;", "%rs9", u(0x3c00, 0x1000), 0x3c00}, // 1 + 2^-11: even
		{"add.f16 %rs9, %rs1, %rs2;", "%rs9", u(0x7bff, 0x7bff), 0x7c00},
	})
}

func TestConversions(t *testing.T) {
	nan := f(math.NaN())
	check(t, []row{
		{"cvt.u64.u32 %rd9, %r1;", "%rd9", u(0xfffffffff), 0xffffffff},
		{"cvt.s64.s32 %rd9, %r1;", "%rd9", u(0xffffffff), m1},
		{"cvt.u32.u64 %r9, %rd1;", "%r9", u(0x123456789), 0x23456789},
		{"cvt.u32.u16 %r9, %rs1;", "%r9", u(0xabcdef01), 0xef01},
		{"cvt.s32.s16 %r9, %rs1;", "%r9", u(0xef01), 0xffffef01},
		{"cvt.u16.u32 %rs9, %r1;", "%rs9", u(0xabcdef01), 0xef01},
		{"cvt.u32.u8 %r9, %r1;", "%r9", u(0xabcdef91), 0x91},
		{"cvt.s32.s8 %r9, %r1;", "%r9", u(0xabcdef91), 0xffffff91},
		{"cvt.rn.f32.s32 %f9, %r1;", "%f9", u(0xffffffff), f(-1)},
		{"cvt.rn.f32.u32 %f9, %r1;", "%f9", u(0xffffffff), f(0x1p32)},
		{"cvt.rn.f32.u16 %f9, %rs1;", "%f9", u(0xffff), f(65535)},
		{"cvt.rn.f32.s32 %f9, %r1;", "%f9", u(16777217), f(16777216)},
		{"cvt.rzi.s32.f32 %r9, %f1;", "%r9", u(f(-1.9)), 0xffffffff},
		{"cvt.rzi.s32.f32 %r9, %f1;", "%r9", u(f(3e9)), 0x7fffffff},
		{"cvt.rzi.s32.f32 %r9, %f1;", "%r9", u(f(-3e9)), 0x80000000},
		{"cvt.rzi.s32.f32 %r9, %f1;", "%r9", u(nan), 0},
		{"cvt.f32.f16 %f9, %rs1;", "%f9", u(0x3555), f(0.333251953125)},
		{"cvt.f32.f16 %f9, %rs1;", "%f9", u(0x8001), f(-0x1p-24)},
		{"cvt.f32.f16 %f9, %rs1;", "%f9", u(0xfc00), f(math.Inf(-1))},
		{"cvt.rn.f16.f32 %rs9, %f1;", "%rs9", u(f(1 + 0x1p-11)), 0x3c00},
		{"cvt.rn.f16.f32 %rs9, %f1;", "%rs9", u(f(1 + 0x3p-11)), 0x3c02},
		{"cvt.rn.f16.f32 %rs9, %f1;", "%rs9", u(f(-65519.99)), 0xfbff},
		{"cvt.rn.f16.f32 %rs9, %f1;", "%rs9", u(f(65520)), 0x7c00},
		{"cvt.rn.f16.f32 %rs9, %f1;", "%rs9", u(f(0x1p-25)), 0},
		{"cvt.rn.f16.f32 %rs9, %f1;", "%rs9", u(f(-0x3p-25)), 0x8002},
		{"cvt.rn.f16.f32 %rs9, %f1;", "%rs9", u(f(0x1p-14 - 0x1p-26)), 0x0400},
		{"cvt.rn.f16.f32 %rs9, %f1;", "%rs9", u(nan), 0x7fff},
		{"cvt.rn.bf16.f32 %rs9, %f1;", "%rs9", u(f(1 + 0x1p-8)), 0x3f80},
		{"cvt.rn.bf16.f32 %rs9, %f1;", "%rs9", u(f(1 + 0x3p-8)), 0x3f82},
		{"cvt.rn.bf16.f32 %rs9, %f1;", "%rs9", u(0x7f7fffff), 0x7f80},
		{"cvt.rn.bf16.f32 %rs9, %f1;", "%rs9", u(0xff800001), 0x7fff},
		// The first source is the upper half.
		{"cvt.rn.f16x2.f32 %r9, %f1, %f2;", "%r9", u(f(1), f(-2)), 0x3c00c000},
		{"cvt.rn.bf16x2.f32 %r9, %f1, %f2;", "%r9", u(f(1), f(-2)), 0x3f80c000},
		// Ties away from zero.
		{"cvt.rna.tf32.f32 %r9, %f1;", "%r9", u(f(1 + 0x1p-11)), f(1 + 0x1p-10)},
		{"cvt.rna.tf32.f32 %r9, %f1;", "%r9", u(f(-1 - 0x1p-11)), f(-1 - 0x1p-10)},
		{"cvt.rna.tf32.f32 %r9, %f1;", "%r9", u(f(1 + 0x1p-11 - 0x1p-23)), f(1)},
		{"cvt.rna.tf32.f32 %r9, %f1;", "%r9", u(0x7f7fffff), 0x7f800000},
		{"mov.b32 %r9, {%rs1, %rs2};", "%r9", u(0x1111, 0x2222), 0x22221111},
		{"mov.b32 {%rs8, %rs9}, %r1;", "%rs9", u(0x22221111), 0x2222},
		{"mov.b64 %rd9, {%r1, %r2};", "%rd9", u(1, 2), 2<<32 | 1},
		{"{ .reg .b16 t; mov.b32 {t, %rs9}, %r1; }", "%rs9", u(0x22221111), 0x2222},
		{"cvta.shared.u64 %rd7, %rd1; cvta.to.shared.u64 %rd9, %rd7;", "%rd9", u(0x480), 0x480},
		{"mov.u32 %r9, %ntid.x;", "%r9", nil, 1},
	})
}

// Text that means nothing, or nothing this package knows, is refused, with its line.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"frobnicate.b32 %r9, %r1;", "unknown instruction"},
		{"add.sat.s32 %r9, %r1, %r2;", "modifiers"},
		{"fma.rn.ftz.f32 %f9, %f1, %f2, %f3;", "modifier .f32 expected"},
		{"add.s32 %r9, %r1;", "operand too few"},
		{"add.s32 %r9, %r1, %r2, %r3;", "operands too many"},
		{"add.s32 %r9, %r1, %rd2;", "no register of 4 bytes"},
		{"add.s16 %rs9, %rs1, 70000;", "a number that is not of 2 bytes"},
		{"add.s32 %r9, %r1, %r99;", "unknown register %r99"},
		{"mov.u32 %tid.x, %r1;", "cannot be written"},
		{"bra nowhere;", "no label nowhere"},
		{"setp.lo.s32 %p9, %r1, %r2;", "setp.lo.s32"},
		{"setp.lt.b32 %p9, %r1, %r2;", "setp.lt.b32"},
		{"cvt.f16.f32 %rs9, %f1;", "no conversion"},
		{"cvt.rn.f16x2.f32 %r9, %f1;", "operand too few"},
		{"ld.global.u32 %r9, [%r1];", "an address of 32 bits"},
		{"ld.param.u64 %rd9, [out+4];", "8 bytes at offset 4"},
		{"ld.param.u64 %rd9, [absent];", "no parameter"},
		{"bar.sync 1;", "not 0"},
		{"cp.async.cg.shared.global [%r1], [%rd1], 8;", "a copy of 8 bytes"},
		{"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r3}, {%f1,%f2,%f3,%f4};", "no m16n8k8 of bf16"},
		{".local .b32 x;", "unknown directive"},
		{".pragma \"fast\";", "unknown pragma"},
		{"mul.wide.s64 %rd9, %rd1, %rd2;", "one of the modifiers"},
		{"@%r1 mov.u32 %r9, 1;", "no predicate"},
		// While it runs:
		{"st.global.b32 [%rd8], %r7;", "never given a value"},
		{"@%p7 st.global.b32 [%rd8], %r1;", "never given a value"},
		{"add.s64 %rd9, %rd8, 2; ld.global.u32 %r9, [%rd9];", "4 bytes at offset 2 of buffer out"},
		{"st.global.b32 [%rd8+-4], %r1;", "offset -4 of buffer out"},
		{"st.global.b16 [%rd8], %rs1; ld.global.u32 %r9, [%rd8];", "byte 2 of buffer out is read, but was never written"},
		{"st.global.b16 [%rd8], %rs1; add.s64 %rd9, %rd8, 1; ld.global.u16 %rs9, [%rd9];", "not aligned"},
		{"mov.u64 %rd9, 0; ld.global.u32 %r9, [%rd9];", "in no buffer"},
		{"div.s32 %r9, %r1, 0;", "division by zero"},
		{"ld.shared.u32 %r9, [%rd1];", "outside of the block's shared memory"},
		{"loop: bra loop;", "does not end"},
		{"st.global.b32 [%rd8], %r1; ld.global.nc.u32 %r9, [%rd8];", "ld.global.nc"},
		{"cvta.to.shared.u64 %rd9, %rd8;", "is not in shared memory"},
		{"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f9,%f8,%f7,%f6}, {%r1,%r2}, {%r3}, {%f1,%f2,%f3,%f1};", "a lane has ended"},
	} {
		_, err := evaluate(t, c.code, "%r9")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", c.code, err, c.want)
		}
	}
}
