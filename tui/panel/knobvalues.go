package panel

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"dev.gpustall/engine/base/knob"
)

// stepped returns the value that is d steps of a size away from cur.
func stepped(s *knob.Spec, cur string, d, size int) string {
	switch s.Type {
	case "bool":
		return knob.Switch(d > 0)
	case "int":
		v, _ := strconv.Atoi(cur)
		if len(s.Values) == 0 {
			return strconv.Itoa(clamp(v+d*size, s))
		}
		for range size {
			v = neighbour(s.Values, v, d)
		}
		return strconv.Itoa(clamp(v, s))
	case "duration":
		v, _ := time.ParseDuration(cur)
		v = max(0, v+time.Duration(d*size)*time.Millisecond)
		if s.Max > 0 {
			v = min(v, time.Duration(s.Max)*time.Millisecond)
		}
		return knob.Duration(v)
	}
	if len(s.Values) == 0 {
		return cur
	}
	i := slices.Index(s.Values, cur)
	return s.Values[min(max(i+d, 0), len(s.Values)-1)]
}

func clamp(v int, s *knob.Spec) int {
	if s.Max > s.Min {
		return min(max(v, s.Min), s.Max)
	}
	return v
}

// neighbour returns the nearest of values above v (d > 0) or below it, and v where there is none.
func neighbour(values []string, v, d int) int {
	best, found := v, false
	for _, s := range values {
		n, err := strconv.Atoi(s)
		if err != nil || (d > 0 && n <= v) || (d < 0 && n >= v) {
			continue
		}
		if !found || (d > 0 && n < best) || (d < 0 && n > best) {
			best, found = n, true
		}
	}
	return best
}

// sameValue reports whether two texts are the same value. Examples are on and true, 5ms and 0.005s,
// and off and 0s.
func sameValue(a, b string) bool {
	if a == b || knob.Off(a) && knob.Off(b) || knob.On(a) && knob.On(b) {
		return true
	}
	da, err := time.ParseDuration(a)
	if err != nil {
		return false
	}
	db, err := time.ParseDuration(b)
	return err == nil && da == db
}

// typed returns text that was typed as the knob writes its value. A time without a unit is in
// milliseconds. The run may still refuse the value.
func typed(s *knob.Spec, text string) (string, error) {
	text = strings.TrimSpace(text)
	if _, err := strconv.Atoi(text); err == nil && s.Type == "duration" {
		text += "ms"
	}
	return knob.Canonical(s, text)
}
