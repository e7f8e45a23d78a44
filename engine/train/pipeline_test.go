package train_test

import (
	"context"
	"slices"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/emu"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader/transform"
)

// ordered is a device that notes the order in which steps are launched and their metrics
// read, as far as streams and waits promise it.
type ordered struct {
	device.Device
	position map[device.Stream]int                   // calls on a stream so far
	recorded map[device.Event]place                  // its latest Record
	reached  map[device.Stream]map[device.Stream]int // how far another stream is sure to be
	launches []place
	reads    []place
	running  bool // earlier copies are the state's own
	t        *testing.T
}

// place is a position in a stream.
type place struct {
	stream device.Stream
	at     int
}

func (d *ordered) call(s device.Stream) place {
	d.position[s]++
	return place{s, d.position[s]}
}

// behind reports whether the next work of stream s comes after p.
func (d *ordered) behind(s device.Stream, p place) bool {
	return s == p.stream || d.reached[s][p.stream] >= p.at
}

func (d *ordered) Record(s device.Stream, e device.Event) error {
	d.recorded[e] = d.call(s)
	return d.Device.Record(s, e)
}

func (d *ordered) Wait(s device.Stream, e device.Event) error {
	if p, ok := d.recorded[e]; ok {
		if d.reached[s] == nil {
			d.reached[s] = map[device.Stream]int{}
		}
		d.reached[s][p.stream] = max(d.reached[s][p.stream], p.at)
	}
	return d.Device.Wait(s, e)
}

func (d *ordered) Launch(s device.Stream, p device.Program) error {
	if n := len(d.launches); n >= prepared.Slots && len(d.reads) == n && !d.behind(s, d.reads[n-prepared.Slots]) {
		d.t.Errorf("step %d may overwrite metrics before they are read", n)
	}
	d.launches = append(d.launches, d.call(s))
	return d.Device.Launch(s, p)
}

func (d *ordered) CopyOut(s device.Stream, dst []byte, src device.Buffer) error {
	if !d.running {
		return d.Device.CopyOut(s, dst, src)
	}
	if n := len(d.reads); len(d.launches) != n+1 || !d.behind(s, d.launches[n]) {
		d.t.Errorf("the metrics of step %d may be read before they are there, %d steps launched", n, len(d.launches))
	}
	d.reads = append(d.reads, d.call(s))
	return d.Device.CopyOut(s, dst, src)
}

// TestReadBack: metrics are read after their step and before another step overwrites
// them. Their stream holds up neither the next step nor the next batch.
func TestReadBack(t *testing.T) {
	p, err := emu.Find("h100")
	if err != nil {
		t.Fatal(err)
	}
	dev := &ordered{
		Device: emu.New(p, emu.NewRealClock()), t: t,
		position: map[device.Stream]int{}, recorded: map[device.Event]place{}, reached: map[device.Stream]map[device.Stream]int{},
	}
	const steps, batch = 400, 128 // the learning rate warms up in the first 100, by a copy before each step
	d := stripes{n: batch}
	m := cnn(t, d)
	k := train.DefaultKnobs()
	k.Loader.BatchSize, k.Loader.Ceiling, k.Loader.PinMemory = batch, true, true
	r := newRig(t, dev, train.Config{
		Task: prepared.Task{Model: m, Seed: 1}, Dataset: d, Transform: transform.CIFARTrain(), Steps: steps,
		Recipe: m.Recipe(batch), Knobs: k,
	})
	dev.running, dev.launches = true, nil
	s := r.run(t, context.Background())
	if len(s.Recent) != steps || len(dev.reads) != steps {
		t.Fatalf("%d steps, %d reads", len(s.Recent), len(dev.reads))
	}
	for i := range dev.reads {
		if dev.reads[i].stream == dev.launches[i].stream {
			t.Errorf("step %d: the metrics are read on the compute stream", i)
		}
	}
	// The host is ahead of the device at some steps, even on a busy machine.
	gaps := make([]int64, 0, steps)
	for _, st := range s.Recent {
		gaps = append(gaps, st.End-st.Start-st.Busy)
	}
	slices.Sort(gaps)
	t.Logf("between two steps' compute: %d ns at the least, %d in the median", gaps[0], gaps[len(gaps)/2])
	if least := p.Card.CopyLatency / 4; gaps[0] > int64(least) {
		t.Errorf("no step begins within %v of the end of the one before", least)
	}
}
