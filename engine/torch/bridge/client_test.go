//go:build linux

package bridge

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// samples is the data set of all clients. Its transform is slow on purpose.
const samples = `
import sys, time, torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
class Slow(Dataset):
    def __len__(self): return 4000
    def __getitem__(self, i):
        time.sleep(0.006)
        return torch.randn(16), i % 10
model = torch.nn.Linear(16, 10)
loss = torch.nn.functional.cross_entropy
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def fit(loader, model, optimizer, epochs, backward=torch.Tensor.backward):
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad(); backward(loss(model(x), y)); optimizer.step()
`

// clients are trainings as people write them. They are safe to be imported, because workers that
// are not forked import them.
var clients = []struct{ name, needs, text string }{
	{"a plain loop", "torch", samples + `
if __name__ == "__main__":
    fit(DataLoader(Slow(), batch_size=8, shuffle=True, num_workers=1), model, optimizer, 9)
`},
	{"an ImageFolder", "torchvision", samples + `
import os
from PIL import Image
from torchvision import datasets, transforms
def slowly(x):
    time.sleep(0.006)
    return x
if __name__ == "__main__":
    root = sys.argv[1]
    for c in "ab":
        os.makedirs(os.path.join(root, c))
        for i in range(400): Image.new("RGB", (8, 8), (i % 256, 0, 0)).save(os.path.join(root, c, "%d.png" % i))
    data = datasets.ImageFolder(root, transforms.Compose([slowly, transforms.ToTensor()]))
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(50):
        fit(DataLoader(data, batch_size=8, shuffle=True, num_workers=1), model, optimizer, 1)
`},
	{"Lightning", "lightning", samples + `
import lightning
class Module(lightning.LightningModule):
    def __init__(self): super().__init__(); self.model = model
    def training_step(self, batch, i): return loss(self.model(batch[0]), batch[1])
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=0.01)
if __name__ == "__main__":
    loader = DataLoader(Slow(), batch_size=8, shuffle=True, num_workers=1)
    lightning.Trainer(max_epochs=9, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False).fit(Module(), loader)
`},
	{"accelerate", "accelerate", samples + `
from accelerate import Accelerator
if __name__ == "__main__":
    accelerator = Accelerator(cpu=True)
    fit(*accelerator.prepare(DataLoader(Slow(), batch_size=8, shuffle=True, num_workers=1), model, optimizer), 9, accelerator.backward)
`},
	{"Hugging Face's Trainer", "transformers", samples + `
from transformers import Trainer, TrainingArguments
class Named(Slow):
    def __getitem__(self, i):
        x, y = super().__getitem__(i)
        return dict(x=x, labels=torch.tensor(y))
class Model(torch.nn.Module):
    def __init__(self): super().__init__(); self.model = model
    def forward(self, x=None, labels=None):
        out = self.model(x)
        return dict(loss=loss(out, labels), logits=out)
if __name__ == "__main__":
    Trainer(model=Model(), train_dataset=Named(), args=TrainingArguments(output_dir=sys.argv[1], num_train_epochs=9, per_device_train_batch_size=8,
        dataloader_num_workers=1, report_to=[], save_strategy="no", use_cpu=True, remove_unused_columns=False, disable_tqdm=True)).train()
`},
}

// TestClients: in each client the slow transform is found. num_workers is raised while it
// trains, the rate rises, and the verdict follows.
func TestClients(t *testing.T) {
	python := os.Getenv("GPUSTALL_PYTHON")
	if python == "" {
		t.Skip("GPUSTALL_PYTHON names no Python that has torch; make test-torch does")
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			if out, err := exec.Command(python, "-c", "import "+c.needs).CombinedOutput(); err != nil {
				t.Skipf("%s is not installed for %s: %s", c.needs, python, lastLine(out))
			}
			before, after, s := raised(t, python, c.text)
			t.Logf("%.0f samples/s with 1 worker, %.0f with 4", before, after)
			if after < 1.3*before {
				t.Errorf("%.0f samples/s with 1 worker, %.0f with 4", before, after)
			}
			rows := attribution.Segments(s)
			if len(rows) < 2 || rows[1].Segment.Reason != "num_workers 1 -> 4" {
				t.Fatalf("segments %+v", s.Segments)
			}
			v := advice.Of(s, s.Tally(0), rows).Verdict
			t.Log(v.Text)
			if v.Class != "input-bound" || v.Dominant != trace.CauseFetch && v.Dominant != trace.CauseTransform {
				t.Errorf("%s, most of it for %v", v.Class, v.Dominant)
			}
		})
	}
}

// ranks is a distributed training whose second rank has slow data.
const ranks = `
import os, time, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler
dist.init_process_group("gloo")
torch.set_num_threads(1)
class Samples(Dataset):
    def __len__(self): return 240
    def __getitem__(self, i):
        time.sleep(0.012 if dist.get_rank() == 1 else 0.001)
        return torch.randn(16), i % 10
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(Samples(), batch_size=4, sampler=DistributedSampler(Samples())):
    optimizer.zero_grad(); torch.nn.functional.cross_entropy(model(x), y).backward(); optimizer.step()
dist.destroy_process_group()
`

// TestRanks: the session is about rank 0. It tells how the other ranks do, and which
// one holds them up.
func TestRanks(t *testing.T) {
	python := os.Getenv("GPUSTALL_PYTHON")
	if python == "" {
		t.Skip("GPUSTALL_PYTHON names no Python that has torch; make test-torch does")
	}
	const works = "import sys, torch; sys.exit(torch.__version__ < '2' and sys.version_info >= (3, 11))"
	if exec.Command(python, "-c", works).Run() != nil {
		t.Skip("torchrun of PyTorch 1.13 fails on Python 3.11 by itself")
	}
	r := begin(t, python, ranks, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
	<-r.ended
	if r.why != nil {
		t.Fatalf("%v\n%s", r.why, r.out)
	}
	s := r.stop(t)
	if len(s.Recent) != 30 || r.first.Hello.Rank != 0 || r.first.Hello.World != 2 {
		t.Errorf("%d steps of rank %d of %d, want 30 of rank 0 of 2", len(s.Recent), r.first.Hello.Rank, r.first.Hello.World)
	}
	found := s.Ranks(0, s.Now)
	if len(found) != 2 || found[0].Steps != 29 || found[1].Steps != 29 {
		t.Fatalf("%+v, want two ranks of 29 whole steps", found)
	}
	if at, why := attribution.SlowestRank(found); at != 1 {
		t.Errorf("%+v: the slowest is %d, %q", found, at, why)
	}
}

func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// training is a watched training.
type training struct {
	bridge    *Bridge
	cmd       *exec.Cmd
	ended     chan struct{}
	why       error // how it ended; read it after ended
	out       *strings.Builder
	first     Start
	session   *trace.Session
	collector *trace.Collector
}

// begin starts a training and records it from its first batch on.
func begin(t *testing.T, python, text string, launcher ...string) *training {
	t.Helper()
	b, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	dir := t.TempDir()
	script := filepath.Join(dir, "train.py")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &training{bridge: b, ended: make(chan struct{}), out: &strings.Builder{}}
	r.cmd = exec.Command(python, append(append([]string{"-W", "ignore"}, launcher...), script, filepath.Join(dir, "data"))...)
	r.cmd.Env = append(b.Environ(os.Environ()), "GLOO_SOCKET_IFNAME=lo")
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kill)
	go func() {
		defer close(r.ended)
		r.why = r.cmd.Wait()
	}()
	b.Watch()
	select {
	case r.first = <-b.First():
	case <-r.ended:
		t.Fatalf("it ended: %v\n%s", r.why, r.out)
	case <-time.After(3 * time.Minute):
		r.kill()
		t.Fatalf("no loop was seen\n%s", r.out)
	}
	recorder := trace.NewRecorder(b.Clock, 0)
	r.session = trace.NewSession(trace.Meta{DeviceKind: "cpu", Specs: Specs(&r.first.Hello, &r.first.Loader, &r.first.Batch), Samples: r.first.Loader.Samples})
	r.collector = trace.NewCollector(recorder, r.session, attribution.NewAnalyzer(r.first.Since), nil)
	b.Record(recorder)
	r.collector.Start()
	return r
}

// kill ends a training and its workers at once. Workers of a fork server would outlive the
// training and keep its output open.
func (r *training) kill() {
	_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	<-r.ended
}

// stop completes the session of a training that has ended.
func (r *training) stop(t *testing.T) *trace.Snapshot {
	t.Helper()
	r.bridge.Stop()
	if err := r.collector.Stop(trace.Outcome{Status: "stopped"}); err != nil {
		t.Fatal(err)
	}
	return r.session.Snapshot(0, 1<<62)
}

// raised runs a training, raises num_workers from 1 to 4 and returns the rates before and
// after.
func raised(t *testing.T, python, text string) (before, after float64, s *trace.Snapshot) {
	t.Helper()
	r := begin(t, python, text)
	reach := func(segment int, steps int64) {
		t.Helper()
		for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			s := r.session.Snapshot(0, 0)
			if len(s.Segments) > segment && s.Tally(int32(segment)).Steady.Steps >= steps {
				return
			}
			select {
			case <-r.ended:
				t.Fatalf("it ended: %v\n%s", r.why, r.out)
			default:
			}
			if time.Now().After(end) {
				r.kill()
				t.Fatalf("segment %d did not come to %d steps: %+v\n%s", segment, steps, s.Segments, r.out)
			}
		}
	}
	reach(0, 60)
	if err := r.bridge.Control.Set([]knob.Setting{{Name: "num_workers", Value: "4"}}); err != nil {
		t.Fatal(err)
	}
	reach(1, 60)
	r.kill()
	s = r.stop(t)
	rows := attribution.Segments(s)
	return rows[0].SamplesPerSecond, rows[1].SamplesPerSecond, s
}
