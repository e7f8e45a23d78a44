package train

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/ops"
	"dev.gpustall/loader"
)

// flight is a step that the device has not finished: its batch, its events and what the
// host noted of it so far. Flights lie in the pipeline's ring and are reused.
type flight struct {
	copyStart, copyEnd, start, end, done device.Event
	metrics                              []byte // float32 mean loss, hits, and for fp16 loss scale, skipped; page-locked

	batch    *loader.Batch // nil once released
	step     int32
	segment  int32
	seq      int32
	epoch    int32
	samples  int32
	bytes    int64
	load     int64
	work     trace.Work
	built    trace.Built
	enqueued int64 // host time before the first call
	host     int64 // ns spent enqueuing
	flags    uint16

	prog   *ops.Program
	timing device.Timing // 0 when the ops are not timed
	scaled bool          // the loss scale is read too
}

func (f *flight) open(dev device.Device) (err error) {
	for _, ev := range []*device.Event{&f.copyStart, &f.copyEnd, &f.start, &f.end, &f.done} {
		if *ev, err = dev.NewEvent(); err != nil {
			return err
		}
	}
	f.metrics, err = dev.AllocHost(nn.MetricsSize + nn.ScaleSize)
	return err
}

func (f *flight) close(dev device.Device) {
	for _, ev := range []device.Event{f.copyStart, f.copyEnd, f.start, f.end, f.done} {
		if ev != 0 {
			dev.FreeEvent(ev)
		}
	}
	if f.metrics != nil {
		dev.FreeHost(f.metrics)
	}
	*f = flight{}
}

// begin notes what the step is made of.
func (f *flight) begin(b *loader.Batch, step, segment int32) {
	f.batch, f.step, f.segment, f.seq, f.epoch = b, step, segment, b.Seq, b.Epoch
	f.samples, f.bytes, f.load = int32(b.N), int64(len(b.Host)), b.Load
	f.work, f.built = b.Work, b.Built
}

// copied gives the batch back to the loader if its copy is done.
func (f *flight) copied(dev device.Device) error {
	if f.batch == nil {
		return nil
	}
	ok, err := dev.Query(f.copyEnd)
	if err != nil || !ok {
		return err
	}
	f.release()
	return nil
}

// release gives the batch back to the loader.
func (f *flight) release() {
	if f.batch != nil {
		f.batch.Release()
		f.batch = nil
	}
}
