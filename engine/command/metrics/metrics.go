// Package metrics hands a session's numbers to Prometheus, on a port that Prometheus scrapes, or in a
// file for node_exporter's textfile collector.
package metrics

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/trace"
)

// every is how often a file is written, and how long a client may take to ask.
const every = 10 * time.Second

// Source is a session.
type Source interface {
	Snapshot(from, to int64) *trace.Snapshot
}

// Export hands the numbers out. Its owner must call Stop.
type Export struct {
	// Where is the address at which Export listens, as "http://127.0.0.1:9400/metrics", or the
	// file.
	Where string

	registry *prometheus.Registry
	server   *http.Server
	file     string
	failed   func(error)
	quit     context.CancelFunc
	done     chan struct{}
}

// Address returns the address for "HOST:PORT", or for ":PORT", which only this machine can reach. ok
// is false for the name of a file.
func Address(to string) (address string, ok bool) {
	host, port, err := net.SplitHostPort(to)
	if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 0 || n > 65535 || strings.ContainsRune(host, '/') {
		return "", false
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), true
}

// Start hands the numbers of s out at a port or in a file. failed is told of later errors.
func Start(to string, s Source, failed func(error)) (*Export, error) {
	e := &Export{registry: prometheus.NewPedanticRegistry(), failed: failed, done: make(chan struct{})}
	if err := e.registry.Register(&collector{of: s}); err != nil {
		return nil, errs.Wrap(err, "make", "metrics", "go on without --metrics")
	}
	ctx, quit := context.WithCancel(context.Background())
	e.quit = quit
	address, listens := Address(to)
	if !listens {
		e.Where, e.file = to, to
		if err := e.write(); err != nil {
			return nil, err
		}
		go e.writeOn(ctx)
		return e, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, errs.Wrap(err, "listen at", address, "choose another port; with :0 the system chooses one")
	}
	e.Where = "http://" + l.Addr().String() + "/metrics"
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{}))
	e.server = &http.Server{Handler: mux, ReadHeaderTimeout: every}
	go func() {
		defer close(e.done)
		if err := e.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed(errs.Wrap(err, "serve metrics at", address, "the run goes on without them"))
		}
	}()
	return e, nil
}

// writeOn writes the file until ctx is done.
func (e *Export) writeOn(ctx context.Context) {
	defer close(e.done)
	timer.Repeat(ctx.Done(), every, func() bool {
		err := e.write()
		if err != nil {
			e.failed(err)
		}
		return err == nil
	})
}

// write replaces the whole file by a rename.
func (e *Export) write() error {
	return errs.File(prometheus.WriteToTextfile(e.file, e.registry), "write metrics", e.file, "name a file in a folder that can be written to")
}

// Stop ends the export. A file has the last numbers then.
func (e *Export) Stop() {
	e.quit()
	if e.server != nil {
		_ = e.server.Close()
	}
	<-e.done
	if e.server == nil {
		if err := e.write(); err != nil {
			e.failed(err)
		}
	}
}

// collector makes the numbers of a session when they are asked for.
type collector struct{ of Source }

// Describe describes nothing: which metrics there are depends on the session.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the numbers as they are now.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.of.Snapshot(0, 0)
	labels := prometheus.Labels{"session": s.Meta.ID, "rank": knob.ValueOf(s.Meta.Host, trace.JobRank), "node": knob.ValueOf(s.Meta.Host, trace.JobNode)}
	send := func(kind prometheus.ValueType, name, help string, value float64, more ...string) {
		names, values := make([]string, 0, len(more)/2), make([]string, 0, len(more)/2)
		for i := 0; i+1 < len(more); i += 2 {
			names, values = append(names, more[i]), append(values, more[i+1])
		}
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc("gpustall_"+name, help, names, labels), kind, value, values...)
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	send(gauge, "info", "What runs, in labels; always 1.", 1, "version", s.Meta.Version, "device", s.Meta.Device, "device_kind", s.Meta.DeviceKind,
		"model", s.Meta.Model, "emulated", strconv.FormatBool(s.Meta.Emulated))
	total := &s.Total
	send(counter, "steps_total", "Training steps.", float64(total.Steps))
	send(counter, "samples_total", "Samples trained with.", float64(total.Samples))
	const time, timeHelp = "time_seconds_total", "Time of the steps, by what the device did (computing) or waited for."
	send(counter, time, timeHelp, seconds(total.Busy), "cause", "computing")
	for c := range trace.Cause(trace.NumCauses) {
		send(counter, time, timeHelp, seconds(total.Stall[c]), "cause", c.String())
	}
	if w := trace.Count(attribution.Window(s)).Steady; w.Steps > 0 && w.Active() > 0 {
		b := attribution.Breakdown{Totals: w}
		send(gauge, "device_utilisation_ratio", "Share of the time in which the device computed, over the newest steps.", b.Utilisation())
		send(gauge, "data_wait_ratio", "Share of the time in which the device waited for data, over the newest steps.", b.DataShare())
		send(gauge, "step_seconds", "Mean time of the newest steps.", seconds(w.Active())/float64(w.Steps))
		send(gauge, "samples_per_second", "Rate of the newest steps.", float64(w.Samples)/seconds(w.Active()))
	}
	if n := len(s.Segments); n > 0 {
		send(gauge, "segment", "The number of the segment: it grows with each change of settings.", float64(s.Segments[n-1].Index))
		for _, k := range s.Segments[n-1].Knobs {
			if v, ok := number(k.Value); ok {
				send(gauge, "knob", "A setting in force; on is 1 and off is 0.", v, "knob", k.Name)
			}
		}
	}
	for name := range s.Gauges {
		if v, ok := s.Gauge(name); ok && !strings.HasPrefix(name, "rank_") {
			send(gauge, "reading", "The newest reading of a gauge of host or GPU.", v, "gauge", name)
		}
	}
	if labels["rank"] == "" {
		return
	}
	for _, k := range s.Ranks(0, s.Now) {
		elsewhere := func(p trace.Peer) bool {
			return p.Rank == k.Rank && (p.Node != labels["node"] || p.Session != "")
		}
		if slices.ContainsFunc(s.Peers, elsewhere) { // its own gpustall exports it
			continue
		}
		labels = maps.Clone(labels)
		labels["rank"] = strconv.Itoa(k.Rank)
		send(counter, "rank_steps_total", "Steps of each rank that this gpustall watches.", float64(k.Steps))
		send(counter, "rank_own_seconds_total", "Time in which a rank waited for no other rank: the others wait for the one with most.", seconds(k.Own()))
		send(counter, "rank_data_wait_seconds_total", "Time in which a rank's loop waited for data.", seconds(k.Wait))
	}
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// number returns a setting's value as a number; false where it is none.
func number(value string) (float64, bool) {
	switch value {
	case "on":
		return 1, true
	case "off":
		return 0, true
	}
	v, err := strconv.ParseFloat(value, 64)
	return v, err == nil
}
