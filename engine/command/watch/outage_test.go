package watch

import (
	"strings"
	"testing"
	"time"

	"dev.gpustall/loader/source"
)

// TestOutage: a store that sends nothing for a while is noted once, and so is its return. A few
// repeated requests are not noted, nor are many while others get their bytes.
func TestOutage(t *testing.T) {
	start := time.Unix(1e9, 0)
	var o outage
	for _, s := range []struct {
		at            float64 // seconds
		read, retries int64
		want          string
	}{
		{0, 100, 0, ""},
		{1, 200, 5, ""},
		{2, 200, 6, ""},
		{10, 200, 7, ""}, // two repeated requests, of a run that reads little
		{11, 300, 7, ""},
		{12, 300, 9, ""},
		{16, 300, 12, ""},
		{17.5, 300, 13, "sent nothing for 5.50 s: 6 requests were made again"},
		{30, 300, 30, ""},
		{32, 400, 30, "answers again, after 20.0 s"},
		{40, 400, 30, ""},
	} {
		_, text := o.look(source.Counts{Read: s.read, Retries: s.retries}, start.Add(time.Duration(1e9*s.at)))
		if s.want == "" && text != "" || !strings.Contains(text, s.want) {
			t.Errorf("after %v s: %q, want %q", s.at, text, s.want)
		}
	}
}
