package trace

import (
	"testing"

	"pgregory.net/rapid"
)

// TestMixDividesAll: a mix divides all of a time once, as the phases that it was made of took it.
func TestMixDividesAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var spent [NumPhases]int64
		var all int64
		for _, k := range []Kind{KindRead, KindDecode, KindTransform, KindFetch} {
			spent[k-KindRead] = rapid.Int64Range(0, 1<<40).Draw(t, k.String())
			all += spent[k-KindRead]
		}
		s := Span{Kind: KindFetch, Arg: uint32(MixOf(&spent))}
		ns := rapid.Int64Range(0, 1<<40).Draw(t, "ns")
		var sum int64
		for k, part := range s.Mix().Divide(ns) {
			if part <= 0 {
				t.Fatalf("%v has %d ns", k, part)
			}
			sum += part
			if off := float64(part) - float64(ns)*float64(spent[k-KindRead])/float64(max(all, 1)); all > 0 && max(off, -off) > float64(ns)/255+1 {
				t.Errorf("%v has %d of %d ns, of %v", k, part, ns, spent)
			}
		}
		if sum != ns {
			t.Errorf("%d of %d ns", sum, ns)
		}
	})
}

// TestForeignMix: whatever a file says, no more is divided than there is.
func TestForeignMix(t *testing.T) {
	var sum int64
	for _, part := range Mix(0xFFFFFFFF).Divide(1000) {
		sum += part
	}
	if sum != 1000 {
		t.Errorf("%d of 1000 ns", sum)
	}
	if m := (&Span{Kind: KindBlocked, Arg: 7}).Mix(); m != 0 {
		t.Errorf("a span that is no fetch has mix %d", m)
	}
}
