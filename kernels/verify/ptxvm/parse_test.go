package ptxvm

import (
	"strings"
	"testing"
)

// FuzzParse: no text, however broken, is worse than an error.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", header, header + ".extern .shared .align 128 .b8 m[];\n",
		header + ".visible .entry k(.param .u64 a, .param .align 8 .b8 b[16]) .maxntid 32, 1, 1 { .reg .pred %p<3>; .reg .b32 %r<4>; .shared .b8 s[4]; l: @!%p1 bra l; { .reg .u64 t; mov.u64 t, s; } ret; }",
		header + ".visible .entry k() { .reg .f32 %f<9>; .reg .b32 %r<9>; mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r3}, {%f1,%f2,%f3,%f4}; }",
		header + ".visible .entry k() { .reg .b32 %r<9>; .reg .b64 %rd<9>; cp.async.cg.shared.global [%r1+-4], [%rd1], 16, %r2; cp.async.wait_group 1; shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1; }",
		header + ".visible .entry k() { mov.b32 {}, 0f00; mov.b32 {,}; setp..; @; add; [; wgmma.mma_async.sync.aligned.m64n8k16; }",
	} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		if m, err := Parse("fuzz", []byte(text)); err == nil {
			_ = m.Compile() // for its panics
		}
	})
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{".version", "the text ends early"},
		{header + "#", "line 4: character"},
		{header + ".pragma \"x", "a string without end"},
		{".address_size 32", "addresses of 32 bits"},
		{".global .b32 x;", "unknown directive"},
		{".visible .func f() {}", "belongs"},
		{".visible .entry k(.param .pred p) {}", "a variable of type"},
		{".visible .entry k(.param .align 3 .b8 p[4]) {}", "alignment 3"},
		{".visible .entry k() .fast {}", "unknown directive \".fast\""},
		{".visible .entry k() {", "the text ends early"},
		{".visible .entry k() {} .visible .entry k() {}", "a second entry"},
		{".visible .entry k() { .reg .b32 r; .reg .b32 r; }", "a second register"},
		{".visible .entry k() { l: l: ret; }", "a second label"},
		{".visible .entry k() { } }", "unknown directive"},
		{".visible .entry k() { .reg .b8 r; }", "registers of type"},
		{".visible .entry k() { .extern .b8 r; }", "unknown directive"},
	} {
		m, err := Parse("test", []byte(c.text))
		if err == nil {
			err = m.Compile()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q in it", c.text, err, c.want)
		}
	}
}
