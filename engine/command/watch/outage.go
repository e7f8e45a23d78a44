package watch

import (
	"fmt"
	"time"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/loader/source"
)

// An outage is this many repeated requests, and this long without a byte. One request that fails
// while nothing else is read is no outage.
const (
	outageRetries = 3
	outageAfter   = 5 * time.Second
)

// outage notices that object stores do not answer. Without it they would look like slow
// stores.
type outage struct {
	read    int64     // bytes that had come at the last look with new ones
	retries int64     // repeated requests at that look
	since   time.Time // the first look after it with more repeated requests
	told    bool
}

// look returns what to note: once that stores do not answer, and once that they answer again.
func (o *outage) look(now source.Counts, at time.Time) (level, text string) {
	if now.Read > o.read {
		if o.told {
			level, text = "info", "the object store answers again, after "+units.Prose.Time(int64(at.Sub(o.since)))
		}
		*o = outage{read: now.Read, retries: now.Retries}
		return level, text
	}
	more := now.Retries - o.retries
	if more > 0 && o.since.IsZero() {
		o.since = at
	}
	if away := at.Sub(o.since); !o.told && more >= outageRetries && away >= outageAfter {
		o.told = true
		return "warn", fmt.Sprintf("the object store has sent nothing for %s: %s were made again so far, and the run waits for it",
			units.Prose.Time(int64(away)), units.Counted(int(more), "request", "requests"))
	}
	return "", ""
}

// storeGauges records the requests to object stores.
type storeGauges struct {
	last   source.Counts
	told   bool // why the cache ended was noted
	outage outage
}

func (g *storeGauges) look(r *trace.Recorder, files *source.Files) {
	now := files.Counts()
	for _, c := range []struct {
		gauge       string
		before, now int64
	}{
		{trace.GaugeStoreRequests, g.last.Requests, now.Requests},
		{trace.GaugeStoreRetries, g.last.Retries, now.Retries},
		{trace.GaugeStoreRead, g.last.Read, now.Read},
		{trace.GaugeStoreCached, g.last.Cached, now.Cached},
	} {
		if c.now > c.before {
			r.Gauge(c.gauge, float64(c.now))
		}
	}
	g.last = now
	if level, text := g.outage.look(now, time.Now()); text != "" {
		r.Note(level, text)
	}
	if why := files.Trouble(); why != "" && !g.told {
		g.told = true
		r.Note("warn", why)
	}
}
