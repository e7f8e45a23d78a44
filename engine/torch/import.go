// Package torch imports traces of PyTorch's profiler, which are in Chrome's format, and makes a
// session of each. A trace does not say what the DataLoader's workers did, so the session lacks that.
package torch

import (
	"context"
	"errors"
	"io"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
)

const hint = "export the trace again, by prof.export_chrome_trace(path) or torch.profiler.tensorboard_trace_handler"

// Import makes a session of a trace, which is text or packed (see packings). It reads r once, from its
// start, in bounded memory. Errors and the session call the trace by name. The snapshot's Meta lacks
// what only the caller knows: ID and Version. Ops says how long each operator took in all steps, the
// longest first. It is empty if the trace is too large for a table.
func Import(ctx context.Context, r io.Reader, name string) (*trace.Snapshot, error) {
	rec, err := load(ctx, r, name)
	if err != nil {
		return nil, err
	}
	s, steps := rec.session(name)
	s.Ops = rec.table(steps)
	for i := range s.Ops {
		s.Ops[i].ID = uint32(i + 1)
	}
	return s, nil
}

// load reads a trace and puts it in order.
func load(ctx context.Context, r io.Reader, name string) (*recording, error) {
	rec, err := read(ctx, r)
	if rec != nil && errors.Is(err, io.ErrUnexpectedEOF) {
		switch {
		case len(rec.device) == 0 && len(rec.gpus) > 0: // the host's operators would count as the work
			return nil, errs.New("import", name, "it ends too soon: before what the GPU did, which the profiler writes last", hint)
		case len(rec.steps) > 0 && rec.finish() == nil: // the trace is told as far as it goes
			if rec.unsure() {
				return nil, errs.New("import", name, "it ends too soon: before all that the GPU did in the first step", hint)
			}
			return rec, nil
		}
	}
	if err == nil {
		err = rec.finish()
	}
	if err != nil {
		return nil, explain(err, name)
	}
	return rec, nil
}

// explain returns the error that a user sees when a trace cannot be read.
func explain(err error, name string) error {
	reason := err.Error()
	var syntax *syntaxError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &syntax):
		reason = "it is no trace in JSON: " + reason
	case errors.Is(err, io.ErrUnexpectedEOF):
		reason = "it ends too soon"
	case errors.As(err, new(damage)):
		reason = "its compression is damaged: " + reason
	default:
		return errs.File(err, "import", name, hint)
	}
	return errs.New("import", name, reason, hint).Because(err)
}

// read reads a trace.
func read(ctx context.Context, r io.Reader) (*recording, error) {
	in, err := expand(&meter{ctx: ctx, r: r})
	if err != nil {
		return nil, err
	}
	rec := newRecording()
	p := &parser{lexer: newLexer(in), rec: rec}
	p.mark()
	if err = p.trace(); errors.Is(err, io.ErrUnexpectedEOF) {
		rec.cutAt = p.at
	}
	return rec, err
}

// meter counts the bytes read. It fails once the context has ended.
type meter struct {
	ctx context.Context
	r   io.Reader
	n   int64
	err error // that the file itself had
}

func (m *meter) Read(b []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		m.err = err
		return 0, err
	}
	n, err := m.r.Read(b)
	m.n += int64(n)
	if !errors.Is(err, io.EOF) {
		m.err = err
	}
	return n, err
}

// parser walks through a trace.
type parser struct {
	*lexer
	rec   *recording
	event event
	found bool // the list of events was there
}

// trace reads the whole trace: an object with the list traceEvents, or that list alone.
func (p *parser) trace() error {
	c, err := p.next()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return p.fail("there is nothing in it")
	case err != nil:
		return err
	case c == '[':
		err = p.events()
	case c == '{':
		err = p.object(p.member)
	default:
		err = p.fail("%q where a trace begins with { or [", c)
	}
	if err != nil {
		return err
	}
	if !p.found {
		return errs.Reason("it has no list traceEvents, where torch.profiler writes what happened", hint)
	}
	return p.end()
}

// end reads to the end of the input, where only white space may follow.
func (p *parser) end() error {
	for {
		c, err := p.r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if p.at++; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return p.fail("%q behind its end", c)
		}
	}
}

// member reads a member of the trace's outermost object.
func (p *parser) member(key []byte) error {
	switch string(key) {
	case "traceEvents":
		return p.list(p.events)
	case "deviceProperties":
		return p.list(func() error { return p.array(p.device) })
	case "distributedInfo":
		return p.rank()
	case "otherData": // in a trace that gpustall wrote
		return p.other()
	case "baseTimeNanoseconds":
		word, err := p.scalar(1)
		if n := integer(word); err == nil && n != absent {
			p.rec.base = n
		}
		return err
	}
	return p.skip(1)
}

// other reads the labels of the session that the trace was made from.
func (p *parser) other() error {
	return p.members(1, func(key []byte) error {
		if string(key) != "labels" {
			return p.skip(2)
		}
		return p.list(func() error {
			return p.array(func() error {
				word, err := p.scalar(3)
				switch string(word) {
				case "emulated":
					p.rec.emulated = true
				case "synthetic":
					p.rec.synthetic = true
				case "injected":
					p.rec.flags |= trace.FlagInjected
				case "ceiling":
					p.rec.flags |= trace.FlagCeiling
				}
				return err
			})
		})
	})
}

// rank reads the rank that wrote the trace.
func (p *parser) rank() error {
	return p.members(1, func(key []byte) error {
		n := map[string]*int64{"rank": &p.rec.rank, "world_size": &p.rec.world}[string(key)]
		if n == nil {
			return p.skip(2)
		}
		word, err := p.scalar(2)
		*n = integer(word)
		return err
	})
}

// opens reads the bracket with which the next value begins, and reports whether it was bracket. It
// skips any other value.
func (p *parser) opens(bracket byte, depth int) (bool, error) {
	c, err := p.next()
	if err != nil || c == bracket {
		return err == nil, err
	}
	p.back()
	return false, p.skip(depth)
}

// list calls read to read an array, after its opening bracket. It skips any other value.
func (p *parser) list(read func() error) error {
	if ok, err := p.opens('[', 1); !ok {
		return err
	}
	return read()
}

// members calls member for each member of an object at that depth. It skips any other value.
func (p *parser) members(depth int, member func(key []byte) error) error {
	if ok, err := p.opens('{', depth); !ok {
		return err
	}
	return p.object(member)
}

// events reads the list of events.
func (p *parser) events() error {
	p.found = true
	return p.array(func() error {
		if ok, err := p.opens('{', 2); !ok {
			return err
		}
		if err := p.event.read(p.lexer, 2); err != nil {
			return err
		}
		return p.rec.take(&p.event)
	})
}

// device reads the properties of a GPU.
func (p *parser) device() error {
	id, g := int64(absent), gpu{}
	err := p.members(2, func(key []byte) error {
		switch string(key) {
		case "id", "name", "totalGlobalMem":
		default:
			return p.skip(3)
		}
		name := key[0]
		word, err := p.scalar(3)
		switch name {
		case 'i':
			id = integer(word)
		case 'n':
			g.name = string(word)
		case 't':
			g.memory = max(0, integer(word))
		}
		return err
	})
	if err != nil || id < 0 {
		return err
	}
	if known := p.rec.gpu(id); known != nil {
		known.name, known.memory = g.name, g.memory
	}
	return nil
}
