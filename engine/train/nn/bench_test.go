package nn_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
)

var (
	benchOps     = flag.Bool("ops", false, "benchmarks print the time of each launch")
	benchBF16    = flag.Bool("bf16", false, "benchmarks train in bf16")
	benchThreads = flag.Int("threads", 2, "threads of the cpu device in benchmarks")
)

// BenchmarkTrain times whole training steps on the cpu device: copy in, forward,
// backward, optimizer, metrics out. testdata/nn/bench_torch.py times PyTorch's.
func BenchmarkTrain(b *testing.B) {
	for _, c := range []struct {
		model string
		side  int
		batch int
	}{{"cnn", 32, 128}, {"resnet18", 32, 128}, {"cnn", 224, 16}, {"resnet18", 224, 16}, {"resnet50", 224, 8}, {"cnn3d", 64, 4}} {
		b.Run(fmt.Sprintf("%s/%dx%d/batch=%d", c.model, c.side, c.side, c.batch), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(host.Processors(0))) // as the command has it; package testing sets it for each
			typ := kernels.F32
			if *benchBF16 {
				typ = kernels.BF16
			}
			dev, err := cpu.Open(*benchThreads)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { dev.Close() })
			g := golden{Model: c.model, In: [3]int{c.side, c.side, 3}, Classes: 10}
			if c.model == "cnn3d" {
				g.Frames = 16
			}
			tr := newTrainer(b, dev, g.model(b), 1, c.batch, func(p *nn.PlanConfig) { p.Type = typ })
			tr.check(tr.st.SetHyper(tr.stream, nn.Hyper{LR: 0.001, Momentum: 0.9, WeightDecay: 5e-4}))
			x, labels := g.batch(c.batch, 0)
			tr.load(x, labels)
			tr.run(tr.train)
			ops := make([]time.Duration, len(tr.plan.Train))
			times := make([]time.Duration, 0, b.N)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				at := time.Now()
				tr.load(x, labels)
				tr.run(tr.train)
				times = append(times, time.Since(at))
			}
			b.StopTimer()
			slices.Sort(times)
			median := times[len(times)/2].Seconds()
			b.ReportMetric(float64(c.batch)/median, "images/s(median)")
			b.ReportMetric(float64(c.batch)/times[0].Seconds(), "images/s(best)")
			b.ReportMetric(tr.plan.FLOPs/median/1e9, "GFLOP/s")
			if *benchOps {
				const n = 10
				for range n {
					timing, err := dev.LaunchTimed(tr.stream, tr.train)
					tr.check(err)
					tr.sync()
					got, err := dev.OpTimes(timing, nil)
					tr.check(err)
					for i, d := range got {
						ops[i] += d / n
					}
				}
				fmt.Fprintln(os.Stderr, opTable(tr.plan.Train, ops)) // b.Log keeps ten lines
			}
		})
	}
}

// opTable lists launches by the time they take.
func opTable(ls []device.Launch, times []time.Duration) string {
	type row struct {
		name string
		ms   float64
		l    device.Launch
	}
	rows := make([]row, 0, len(ls))
	total := 0.0
	for i, l := range ls {
		ms := times[i].Seconds() * 1e3
		total += ms
		rows = append(rows, row{l.Layer + " " + l.Op.Name(), ms, l})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.ms, a.ms) })
	var s strings.Builder
	fmt.Fprintf(&s, "%.1f ms in %d launches\n", total, len(rows))
	for _, r := range rows {
		fmt.Fprintf(&s, "%-40s %8.2f ms %5.1f %%  %6.1f GFLOP/s  %6.1f GB/s\n", r.name, r.ms, 100*r.ms/total,
			r.l.Op.FLOPs()/r.ms/1e6, r.l.Op.Bytes()/r.ms/1e6)
	}
	return s.String()
}

// BenchmarkPlan times building a plan on an existing state: what a change of
// batch_size costs here.
func BenchmarkPlan(b *testing.B) {
	for _, model := range nn.Names() {
		b.Run(model, func(b *testing.B) {
			dev, err := cpu.Open(*benchThreads)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { dev.Close() })
			m := newModel(b, model, sampleOf(model), 10)
			tr := newTrainer(b, dev, m, 1, 128, nil)
			tr.cfg.Activations = activations(b, dev, m, tr.cfg)
			b.ReportAllocs()
			for b.Loop() {
				p, err := m.Plan(dev, tr.st, tr.cfg)
				tr.check(err)
				p.Free()
			}
		})
	}
}
