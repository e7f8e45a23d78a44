package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/device/cuda"
	"dev.gpustall/engine/device/emu"
	"dev.gpustall/engine/device/nvml"
	"golang.org/x/term"
)

// finding is a line of the doctor. Its state is ok, note (it works without) or bad.
type finding struct{ state, what, text string }

// Diagnose prints all findings. It returns an error if one is bad.
func Diagnose(w io.Writer, version string) error {
	found := []finding{{"ok", "gpustall", version}}
	for _, k := range Facts() {
		found = append(found, finding{"ok", k.Name, k.Value})
	}
	found = append(found, devices()...)
	found = append(found, finding{"ok", "data", "CIFAR-10 and CIFAR-100, binary or python (folder or tar.gz); tar shards and image folders of JPEG, PNG, WebP, BMP, TIFF, PPM, PGM or .npy arrays; records"})
	found = append(found, limits()...)
	found = append(found, hostGauges()...)
	found = append(found, directories()...)
	found = append(found, terminal())
	bad := 0
	for _, f := range found {
		_ = cli.Say(w, "%-5s %-14s %s\n", f.state, f.what, f.text)
		if f.state == "bad" {
			bad++
		}
	}
	if bad > 0 {
		return errs.New("run", "gpustall doctor", fmt.Sprintf("%d of %d findings are bad", bad, len(found)), "see the lines that begin with bad")
	}
	return nil
}

func devices() []finding {
	var out []finding
	if err := cuda.Available(); err != nil {
		out = append(out, finding{"note", "cuda", err.Error()})
	} else {
		out = append(out, tuning()...)
	}
	for n := range cuda.Count() {
		dev, err := openCUDA(n, false)
		if err != nil {
			state := "bad"
			if errors.Is(err, device.ErrNoDevice) {
				state = "note" // it is too old, for instance
			}
			out = append(out, finding{state, fmt.Sprintf("cuda:%d", n), err.Error()})
			continue
		}
		i := dev.Info()
		_ = dev.Close()
		out = append(out, types(fmt.Sprintf("cuda:%d", n), fmt.Sprintf("%s, %s", i.Name, units.Prose.Bytes(i.Memory)), i)...)
	}
	switch s, err := nvml.Open(0); {
	case errors.Is(err, nvml.ErrNoDriver):
		out = append(out, finding{"note", "nvml", err.Error()})
	case err != nil:
		out = append(out, finding{"bad", "nvml", err.Error()})
	default:
		out = append(out, finding{"ok", "nvml", s.Name() + ", driver " + s.Driver()})
		_ = s.Close()
	}
	if dev, err := cpu.Open(0); err != nil {
		out = append(out, finding{"bad", "cpu device", err.Error()})
	} else {
		out = append(out, types("cpu device", dev.Info().Name, dev.Info())...)
		_ = dev.Close()
	}
	return append(out, finding{"ok", "emulated", strings.Join(emu.Names(), " ")})
}

// types says which number types a device computes in.
func types(what, device string, i device.Info) []finding {
	out := []finding{{"ok", what, device + ", types " + strings.Join(i.Types, " ")}}
	if i.TypeNote != "" {
		out = append(out, finding{"note", what, i.TypeNote})
	}
	return out
}

func directories() []finding {
	var out []finding
	for _, d := range []struct {
		what, path, variable string
		mode                 os.FileMode
	}{
		{"sessions", cli.SessionDir(), cli.StateVariable, 0o700}, {"cache", cli.CacheDir(), cli.CacheVariable, 0o755},
	} {
		f, hint := finding{"ok", d.what, d.path}, "; set "+d.variable+" to a folder that can be written to"
		if err := cli.CheckHome(d.what, d.variable, "name files with --session and --data"); err != nil {
			f = finding{"bad", d.what, err.Error()}
		} else if err := cli.MakeWritable(d.path, d.mode); err != nil {
			f = finding{"bad", d.what, err.Error() + hint}
		}
		out = append(out, f)
	}
	return out
}

func terminal() finding {
	w, h, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return finding{"note", "terminal", "standard output is no terminal: the screen is replaced by plain lines"}
	}
	text := fmt.Sprintf("%s, %dx%d", os.Getenv("TERM"), w, h)
	if os.Getenv("NO_COLOR") != "" {
		text += ", NO_COLOR"
	}
	if w < 120 || h < 30 {
		return finding{"note", "terminal", text + ": the full screen needs 120x30, smaller ones get a compact layout"}
	}
	return finding{"ok", "terminal", text}
}
