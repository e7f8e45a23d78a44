//go:build cuda && cgo && linux

package cuda

import (
	"encoding/gob"
	"errors"
	"io"
	"os"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	cudakernels "dev.gpustall/kernels/cuda"
)

// ServeTrials runs in the process of Config.Trials. It tries the variants of kernels that the
// process that started it asks for. It returns when there are no more questions, or when a variant
// broke the GPU's context. The process must end then, in any way.
func ServeTrials() error {
	return serve(os.Stdin, os.NewFile(3, "answers"), nil)
}

func serve(in io.Reader, out io.Writer, tamper func(*cudakernels.Plan)) error {
	questions, answers := gob.NewDecoder(in), newEncoder(out)
	var g greeting
	if err := questions.Decode(&g); err != nil {
		return errs.New("try", "kernels", "gpustall alone starts this, for itself", "start gpustall run").Because(err)
	}
	dev, err := Open(Config{Ordinal: g.Ordinal})
	if err != nil {
		return errors.Join(err, answers.Encode(answer{Why: err.Error()}))
	}
	d := dev.(*Device)
	d.tuner.patience, d.tamper = g.Patience, tamper
	if err := answers.Encode(answer{}); err != nil {
		return err
	}
	for {
		var q question
		switch err := questions.Decode(&q); {
		case errors.Is(err, io.EOF):
			return d.Close()
		case err != nil:
			return err
		}
		if err := d.answer(q, func(a answer) error { return answers.Encode(a) }); err != nil {
			return err
		}
	}
}

// answer tries the variants of q. After an error nothing more can be tried.
func (d *Device) answer(q question, tell func(answer) error) error {
	told := false
	err := d.Try(q.Op, q.Configs, false, func(t device.Tried) error {
		told = true
		return tell(answer{Config: t.Variant, Time: t.Time, Why: t.Why, Broken: t.Broken})
	})
	switch {
	case errors.Is(err, errNoRoom):
		return tell(answer{NoRoom: true})
	case err != nil && !told:
		return errors.Join(err, tell(answer{Why: err.Error()}))
	}
	return err
}
