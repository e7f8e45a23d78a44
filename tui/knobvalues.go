package tui

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"dev.gpustall/engine/trace"
)

// stepped is the value d steps of a size away from cur.
func stepped(s *trace.KnobSpec, cur string, d, size int) string {
	switch s.Type {
	case "bool":
		return boolLike(cur, d > 0)
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
		return duration(max(0, v+time.Duration(d*size)*time.Millisecond))
	}
	if len(s.Values) == 0 {
		return cur
	}
	i := slices.Index(s.Values, cur)
	return s.Values[min(max(i+d, 0), len(s.Values)-1)]
}

func clamp(v int, s *trace.KnobSpec) int {
	if s.Max > s.Min {
		return min(max(v, s.Min), s.Max)
	}
	return v
}

// neighbour is the nearest of values above (d > 0) or below v.
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

// boolLike writes b in the words that like uses.
func boolLike(like string, b bool) string {
	switch like {
	case "on", "off":
		if b {
			return "on"
		}
		return "off"
	}
	return strconv.FormatBool(b)
}

// duration writes none as off, as the knobs do.
func duration(d time.Duration) string {
	if d == 0 {
		return "off"
	}
	return d.String()
}

// sameValue compares values as people would: on and true, 5ms and 0.005s, off
// and 0s.
func sameValue(a, b string) bool {
	if a == b || isZero(a) && isZero(b) {
		return true
	}
	if da, err := time.ParseDuration(a); err == nil {
		if db, err := time.ParseDuration(b); err == nil {
			return da == db
		}
	}
	return isBool(a) && isBool(b) && isOn(a) == isOn(b)
}

func isBool(v string) bool {
	switch v {
	case "true", "false", "on", "off":
		return true
	}
	return false
}

// valid checks typed text before it is staged; the engine has the last word.
func valid(s *trace.KnobSpec, text string) (string, string) {
	text = strings.TrimSpace(text)
	switch s.Type {
	case "int":
		v, err := strconv.Atoi(text)
		if err != nil {
			return "", s.Name + ": " + strconv.Quote(text) + " is not a whole number"
		}
		if s.Max > s.Min && (v < s.Min || v > s.Max) {
			return "", s.Name + " goes from " + strconv.Itoa(s.Min) + " to " + strconv.Itoa(s.Max) + ", not " + text
		}
		return strconv.Itoa(v), ""
	case "duration":
		if text == "off" {
			return text, ""
		}
		if _, err := strconv.Atoi(text); err == nil {
			text += "ms"
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return "", s.Name + ": write a time like 5ms, not " + strconv.Quote(text)
		}
		return duration(d), ""
	}
	return text, ""
}

// rangeText is a knob's range or choices.
func rangeText(s *trace.KnobSpec) string {
	switch {
	case s.Type == "int" && s.Max > s.Min:
		return strconv.Itoa(s.Min) + " to " + strconv.Itoa(s.Max)
	case s.Type == "bool":
		return "on or off"
	case len(s.Values) > 0:
		return strings.Join(s.Values, " ")
	}
	return s.Type
}

func isZero(v string) bool {
	switch v {
	case "", "0", "0s", "off", "false", "none", "no":
		return true
	}
	return false
}

func isOn(v string) bool { return v == "true" || v == "on" || v == "1" || v == "yes" }
