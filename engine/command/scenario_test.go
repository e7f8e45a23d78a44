package command

import "time"

// scenario is a training whose problem is known, because the test makes it. The data is
// synthetic, the device is a modelled step or the cpu, and the slowness is injected. The
// expected advice was written before the first run. No scenario is dropped or changed because
// it fails.
type scenario struct {
	name       string
	device     string        // "cpu", "emu:…", or empty for a modelled step
	step       time.Duration // how long the modelled step takes, for any batch
	link       link          // the link of the modelled step's device
	data       dataKind
	knobs      string // flags; C is the number of cores that the process may use
	neighbours string // how many other processes compute all the time, such as 2C

	verdict string // the expected class; | separates alternatives
	knob    string // the knob of the first advice; "-" is none
	end     string // "gain": following it helps; "told": no knob helps, and it says what would; "none": nothing is wrong
	best    string // the knobs of an expert; their gain over the end is measured
}

// link is the speed of copies in bytes/s; 0 is that of the emulated H100.
type link struct{ pinned, pageable float64 }

// dataKind is a synthetic data set.
type dataKind struct {
	kind    string // "records", "cifar", "jpeg", or "bursts": 12 batches of small JPEGs and 4 of large ones, in turns
	samples int
	size    int  // bytes of a record, or pixels of a JPEG's side
	cold    bool // the page cache is emptied of it all the time
}

var (
	recs     = dataKind{kind: "records", samples: 4096, size: 4 << 10}
	tinySet  = dataKind{kind: "records", samples: 64, size: 4 << 10}
	oneBatch = dataKind{kind: "records", samples: 8, size: 4 << 10}
	large    = dataKind{kind: "records", samples: 256, size: 512 << 10}
	cold     = dataKind{kind: "records", samples: 512, size: 512 << 10, cold: true}
	pixels   = dataKind{kind: "cifar", samples: 8192}
	photos   = dataKind{kind: "jpeg", samples: 128, size: 1024}
	uneven   = dataKind{kind: "bursts", samples: 256, size: 896}
)

const ms = time.Millisecond

var scenarios = []scenario{
	// The step loop loads the data itself.
	{name: "inline, reads wait", step: 5 * ms, data: recs, knobs: "--batch-size 8 --num-workers 0 --inject read=2ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=6"},
	{name: "inline, loading computes", step: 6 * ms, data: recs, knobs: "--batch-size 8 --num-workers 0 --inject cpu=1ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=2"},
	{name: "inline, partly hidden behind the device", step: 12 * ms, data: recs, knobs: "--batch-size 8 --num-workers 0 --inject read=2ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=3"},
	{name: "inline, hidden behind the device", step: 40 * ms, data: recs, knobs: "--batch-size 8 --num-workers 0 --inject read=1ms",
		verdict: "device-bound", knob: "-", end: "none", best: "num_workers=2"},
	{name: "inline, computing, more than all cores", step: 2 * ms, data: recs, knobs: "--batch-size 8 --num-workers 0 --inject cpu=2ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=C"},

	// Reads wait without a core.
	{name: "reads wait, one worker", step: 10 * ms, data: recs, knobs: "--batch-size 16 --num-workers 1 --inject read=2ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=8"},
	{name: "reads wait, many workers needed", step: 5 * ms, data: recs, knobs: "--batch-size 16 --num-workers 2 --inject read=5ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=24"},
	{name: "reads wait, more than 64 workers needed", step: 2 * ms, data: recs, knobs: "--batch-size 16 --num-workers 8 --inject read=20ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=64"},
	{name: "reads wait, 64 workers do not do", step: 2 * ms, data: recs, knobs: "--batch-size 16 --num-workers 64 --inject read=20ms",
		verdict: "input-bound", knob: "-", end: "told", best: "prefetch_factor=4"},
	{name: "cold reads", step: 2 * ms, data: cold, knobs: "--batch-size 8 --num-workers 1",
		verdict: "input-bound", knob: "num_workers", end: "gain|told", best: "num_workers=8"},

	// Loading needs cores.
	{name: "computing, fewer workers than cores", step: 6 * ms, data: recs, knobs: "--batch-size 8 --num-workers 1 --inject cpu=1ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=2"},
	{name: "computing, more than all cores, one worker", step: 2 * ms, data: recs, knobs: "--batch-size 8 --num-workers 1 --inject cpu=2ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=C"},
	{name: "computing, a worker a core", step: 2 * ms, data: recs, knobs: "--batch-size 8 --num-workers C --inject cpu=2ms",
		verdict: "input-bound", knob: "-", end: "told", best: "num_workers=2C"},
	{name: "computing, 8 workers a core", step: 2 * ms, data: recs, knobs: "--batch-size 8 --num-workers 8C --inject cpu=2ms",
		verdict: "input-bound", knob: "-|num_workers", end: "told|gain", best: "num_workers=C"},
	{name: "half computing, half waiting", step: 6 * ms, data: recs, knobs: "--batch-size 8 --num-workers C --inject read=2ms --inject cpu=500us",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=8"},
	{name: "transforms that the device could do", step: 300 * time.Microsecond, data: pixels, knobs: "--batch-size 1024 --num-workers C --pin-memory",
		verdict: "input-bound", knob: "device_transforms", end: "gain", best: "device_transforms=on"},

	// The cpu device shares the cores with the loader.
	{name: "cpu device, inline, reads wait", device: "cpu", data: pixels, knobs: "--batch-size 16 --num-workers 0 --inject read=2ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=6"},
	{name: "cpu device, loading computes, one worker", device: "cpu", data: pixels, knobs: "--batch-size 16 --num-workers 1 --inject cpu=2ms",
		verdict: "input-bound", knob: "-|num_workers", end: "gain|told", best: "num_workers=C"},
	{name: "cpu device, loading computes, 8 workers a core", device: "cpu", data: pixels, knobs: "--batch-size 16 --num-workers 8C --inject cpu=2ms",
		verdict: "input-bound", knob: "-|num_workers", end: "gain|told", best: "num_workers=C"},
	{name: "cpu device, nothing wrong", device: "cpu", data: pixels, knobs: "--batch-size 32 --num-workers 1",
		verdict: "device-bound", knob: "-", end: "none", best: "num_workers=2"},

	// Other processes use the cores.
	{name: "neighbours on all cores, loading computes", step: 3 * ms, data: recs, knobs: "--batch-size 8 --num-workers C --inject cpu=1ms", neighbours: "C",
		verdict: "input-bound", knob: "-|num_workers", end: "told|gain", best: "num_workers=4C"},
	{name: "a neighbour on one core, loading computes", step: 5 * ms, data: recs, knobs: "--batch-size 8 --num-workers 1 --inject cpu=1ms", neighbours: "1",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=2C"},
	{name: "neighbours on all cores, reads wait", step: 4 * ms, data: recs, knobs: "--batch-size 8 --num-workers 1 --inject read=2ms", neighbours: "C",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=8"},
	{name: "neighbours on all cores, nothing lost", step: 20 * ms, data: recs, knobs: "--batch-size 8 --num-workers 2", neighbours: "C",
		verdict: "device-bound", knob: "-", end: "none", best: "num_workers=4"},
	{name: "neighbours on all cores, cpu device", device: "cpu", data: pixels, knobs: "--batch-size 16 --num-workers 1", neighbours: "C",
		verdict: "host-bound|device-bound", knob: "-", end: "told|none", best: "num_workers=2"},
	{name: "neighbours on all cores, cpu device, inline, loading computes", device: "cpu", data: pixels, knobs: "--batch-size 16 --num-workers 0 --inject cpu=2ms", neighbours: "C",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=2C"},

	// Stragglers.
	{name: "straggler, in order", step: 4 * ms, data: recs, knobs: "--batch-size 8 --num-workers 4 --inject straggler=3:60ms",
		verdict: "input-bound", knob: "in_order", end: "gain", best: "in_order=off"},
	{name: "straggler, out of order", step: 4 * ms, data: recs, knobs: "--batch-size 8 --num-workers 4 --in-order=off --inject straggler=3:60ms",
		verdict: "device-bound", knob: "-", end: "none", best: "num_workers=6"},
	{name: "straggler, the only worker", step: 4 * ms, data: recs, knobs: "--batch-size 8 --num-workers 1 --inject straggler=1:20ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=4 in_order=off"},
	{name: "straggler among slow reads, in order", step: 4 * ms, data: recs, knobs: "--batch-size 8 --num-workers 4 --inject read=2ms --inject straggler=2:100ms",
		verdict: "input-bound", knob: "in_order|num_workers", end: "gain", best: "num_workers=8 in_order=off"},

	// Epochs of a few batches.
	{name: "tiny epochs, workers start anew", step: 12 * ms, data: tinySet, knobs: "--batch-size 8 --num-workers 2 --inject read=2ms",
		verdict: "moderately input-bound|input-bound", knob: "persistent_workers", end: "gain", best: "persistent_workers=on"},
	{name: "tiny epochs of one batch, workers start anew", step: 10 * ms, data: oneBatch, knobs: "--batch-size 8 --num-workers 2 --inject read=2ms",
		verdict: "input-bound", knob: "persistent_workers", end: "gain", best: "persistent_workers=on"},
	{name: "tiny epochs, persistent, too few workers", step: 5 * ms, data: tinySet, knobs: "--batch-size 8 --num-workers 1 --persistent-workers --inject read=2ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=5"},
	{name: "tiny epochs, inline", step: 10 * ms, data: tinySet, knobs: "--batch-size 8 --num-workers 0 --inject read=2ms",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=3 persistent_workers=on"},

	// Copies.
	{name: "copies of pageable memory", step: 5 * ms, link: link{pinned: 20e9, pageable: 5e8}, data: large, knobs: "--batch-size 8 --num-workers 2",
		verdict: "copy-bound", knob: "pin_memory", end: "gain", best: "pin_memory=on"},
	{name: "copies of float32 pixels", step: 2 * ms, link: link{pinned: 5e8, pageable: 5e8}, data: pixels, knobs: "--batch-size 256 --num-workers 2 --pin-memory",
		verdict: "copy-bound", knob: "device_transforms", end: "gain", best: "device_transforms=on"},
	{name: "copies that cannot be smaller", step: 1 * ms, link: link{pinned: 2e8, pageable: 2e8}, data: pixels, knobs: "--batch-size 256 --num-workers 2 --pin-memory --device-transforms",
		verdict: "copy-bound", knob: "-", end: "told", best: "num_workers=4"},

	// Steps so short that the host's own work counts.
	{name: "launch-bound, batches of one", device: "emu:h100", data: pixels, knobs: "--batch-size 1 --num-workers C",
		verdict: "launch-bound|input-bound", knob: "batch_size|num_workers", end: "gain", best: "batch_size=16"},
	{name: "steps of 100 us", step: 100 * time.Microsecond, data: recs, knobs: "--batch-size 4 --num-workers C",
		verdict: "input-bound|moderately input-bound|launch-bound|sync-bound", knob: "batch_size|num_workers|prefetch_factor|-", end: "gain|told", best: "batch_size=8"},
	{name: "steps of 300 us, nothing loaded late", step: 300 * time.Microsecond, data: recs, knobs: "--batch-size 1 --num-workers C --prefetch-factor 8",
		verdict: "device-bound|sync-bound|launch-bound", knob: "-|batch_size", end: "none|told|gain", best: "num_workers=2C"},

	// Batches that differ.
	{name: "bursts, a short queue", step: 8 * ms, data: uneven, knobs: "--batch-size 4 --num-workers C --prefetch-factor 1 --shuffle=off --persistent-workers",
		verdict: "input-bound|moderately input-bound", knob: "prefetch_factor", end: "gain", best: "prefetch_factor=8"},
	{name: "big JPEGs, one worker", step: 14 * ms, data: photos, knobs: "--batch-size 4 --num-workers 1",
		verdict: "input-bound", knob: "num_workers", end: "gain", best: "num_workers=C"},
	{name: "big JPEGs, a worker a core", step: 2 * ms, data: photos, knobs: "--batch-size 4 --num-workers C",
		verdict: "input-bound", knob: "-", end: "told", best: "num_workers=2C"},

	{name: "nothing wrong", step: 20 * ms, data: recs, knobs: "--batch-size 8 --num-workers 2",
		verdict: "device-bound", knob: "-", end: "none", best: "num_workers=4"},
	{name: "nothing wrong, short steps", step: 4 * ms, data: recs, knobs: "--batch-size 8 --num-workers 2",
		verdict: "device-bound", knob: "-", end: "none", best: "num_workers=4"},
}
