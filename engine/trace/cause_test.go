package trace

import (
	"strings"
	"testing"
	"unicode"
)

// TestCauses: every cause has all that is said of a cause, and no two can be mistaken for each
// other.
func TestCauses(t *testing.T) {
	names, letters, colours := map[string]bool{}, map[rune]bool{}, map[uint8]bool{}
	for c := range Cause(NumCauses) {
		i := c.Info()
		if i.Name == "" || i.For == "" || i.Means == "" || i.Group == GroupNone {
			t.Errorf("%v: a field is missing: %+v", c, i)
		}
		if i.Letter >= 0x7f || i.Letter >= 'a' && i.Letter <= 'z' || letters[i.Letter] || names[i.Name] || colours[i.Colour] || int(i.Colour) >= NumCauses || strings.ContainsAny(i.Name, " \t") {
			t.Errorf("%v: letter %q, colour %d", c, i.Letter, i.Colour)
		}
		names[i.Name], letters[i.Letter], colours[i.Colour] = true, true, true
		if got, ok := ParseCause(c.String()); !ok || got != c {
			t.Errorf("%v is read back as %v", c, got)
		}
	}
	if c, ok := ParseCause("gremlins"); ok || c != CauseUnknown {
		t.Errorf("a cause of another program is %v, %v", c, ok)
	}
	if s := (Span{Arg: uint32(NumCauses)}); s.Cause() != CauseUnknown || Cause(NumCauses).Info() != CauseUnknown.Info() {
		t.Error("a number that no cause has is not unknown")
	}
}

// A verdict can be put into words for every group that it may name.
func TestGroups(t *testing.T) {
	judged := 0
	for g := range NumGroups {
		i := g.Info()
		if (i.Class == "") != (i.Loses == "") || i.Loses != "" && strings.Count(i.Loses, "%s") != 1 {
			t.Errorf("group %d: class %q, %q", g, i.Class, i.Loses)
		}
		if i.Class != "" {
			judged++
		}
	}
	if judged < 5 {
		t.Errorf("%d groups are judged", judged)
	}
}

func TestKinds(t *testing.T) {
	names, letters := map[string]bool{}, map[byte]bool{}
	for k := range NumKinds {
		i := k.Info()
		if i.Name == "" || names[i.Name] || i.Letter != 0 && (letters[i.Letter] || i.Doing == "") {
			t.Errorf("kind %d: %+v", k, i)
		}
		names[i.Name], letters[i.Letter] = true, true
		c, ok := k.Cause()
		if lower := unicode.ToLower(c.Info().Letter); ok && i.Letter != 0 && k != KindNext && rune(i.Letter) != lower {
			t.Errorf("kind %v is %q, its cause %v %q", k, i.Letter, c, c.Info().Letter)
		}
		if ok && k <= KindPin && (!c.IsData() || c.String() != k.String()) {
			t.Errorf("a stall in %v is charged to %v", k, c)
		}
	}
	for r := range numReasons {
		if i := r.Info(); i.Name == "" || i.Says == "" {
			t.Errorf("reason %d: %+v", r, i)
		}
	}
}
