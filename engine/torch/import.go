// Package torch reads what PyTorch's profiler writes: a trace in Chrome's format, of
// which it makes a session. What a trace does not tell, such as what the DataLoader's
// workers did, is not in the session either.
package torch

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

const hint = "export the trace again, by prof.export_chrome_trace(path) or torch.profiler.tensorboard_trace_handler"

// Import makes a session of a trace, as text or compressed by gzip. It reads r once,
// from its start, in bounded memory. name is what errors and the session call it. The
// snapshot's Meta lacks what only the caller knows: ID and Version. Its Ops are what the
// operators took in all steps, the longest first; none where the trace is too large for a table.
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

// load gathers what a session is made of.
func load(ctx context.Context, r io.Reader, name string) (*recording, error) {
	rec, err := read(ctx, r)
	if err == nil {
		err = rec.finish()
	}
	if err != nil {
		return nil, explain(err, name)
	}
	return rec, nil
}

// explain makes one error of whatever kept a trace from being read.
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
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, new(flate.CorruptInputError)):
		reason = "its compression is damaged: " + reason
	default:
		return errs.File(err, "import", name, hint)
	}
	return errs.New("import", name, reason, hint).Because(err)
}

// read gathers what matters from a trace.
func read(ctx context.Context, r io.Reader) (*recording, error) {
	in, err := expand(&meter{ctx: ctx, r: r})
	if err != nil {
		return nil, err
	}
	rec := newRecording()
	p := &parser{lexer: newLexer(in), rec: rec}
	p.mark()
	return rec, p.trace()
}

// meter counts what is read, until the context ends.
type meter struct {
	ctx context.Context
	r   io.Reader
	n   int64
}

func (m *meter) Read(b []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(b)
	m.n += int64(n)
	return n, err
}

// A trace shrinks about 30 times when it is compressed. What grows more than
// maxGrowth times, from freeGrowth on, is made to keep its reader busy.
const (
	maxGrowth  = 300
	freeGrowth = 64 << 20
)

// expand is the text of a trace.
func expand(m *meter) (io.Reader, error) {
	b := bufio.NewReaderSize(m, 1<<16)
	if packed, err := isPacked(b); !packed {
		if errors.Is(err, io.EOF) {
			err = nil // the parser will say so
		}
		return b, err
	}
	g := &growth{packed: m, b: b, z: new(gzip.Reader)}
	return g, g.member()
}

// isPacked reports whether what follows begins as gzip does.
func isPacked(b *bufio.Reader) (bool, error) {
	head, err := b.Peek(2)
	return err == nil && head[0] == 0x1f && head[1] == 0x8b, err
}

// growth reads what is compressed, as long as it does not grow too much.
type growth struct {
	packed *meter
	b      *bufio.Reader
	z      *gzip.Reader
	n      int64
}

// member begins the next of the pieces that a file of gzip is made of.
func (g *growth) member() error {
	err := g.z.Reset(g.b)
	g.z.Multistream(false)
	return cut(err)
}

func (g *growth) Read(b []byte) (n int, err error) {
	for n == 0 && err == nil {
		if n, err = g.z.Read(b); errors.Is(err, io.EOF) {
			err = g.next()
		}
	}
	if g.n += int64(n); g.n > freeGrowth && g.n/maxGrowth > g.packed.n {
		return 0, errs.Reason(fmt.Sprintf("its %s of gzip expand to more than %s, as no trace does",
			units.Prose.Bytes(g.packed.n), units.Prose.Bytes(g.n)), hint)
	}
	return n, err
}

// next goes on with what follows a member: another one, or the end, behind zeros that tapes and
// blocks of a store are filled up with, which gzip passes over as well.
func (g *growth) next() error {
	for {
		switch c, err := g.b.ReadByte(); {
		case err != nil:
			return err
		case c == 0:
			continue
		}
		_ = g.b.UnreadByte() // after a ReadByte it cannot fail
		if packed, _ := isPacked(g.b); !packed {
			return gzip.ErrHeader
		}
		return g.member()
	}
}

// parser walks through a trace.
type parser struct {
	*lexer
	rec   *recording
	event event
	found bool // the list of events
}

// trace reads all of it: an object with the list traceEvents, or that list alone.
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

// end reads what may follow: white space.
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

// member reads what the trace has at its top.
func (p *parser) member(key []byte) error {
	switch string(key) {
	case "traceEvents":
		return p.list(p.events)
	case "deviceProperties":
		return p.list(func() error { return p.array(p.device) })
	case "distributedInfo":
		return p.rank()
	case "otherData": // of a trace that gpustall wrote
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

// other reads the labels of the session that the trace was made of.
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

// rank reads which rank the trace is of.
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

// list has read the elements of an array, and passes over anything else.
func (p *parser) list(read func() error) error {
	c, err := p.next()
	if err != nil {
		return err
	}
	if c != '[' {
		p.back()
		return p.skip(1)
	}
	return read()
}

// members reads the members of an object at that depth, and passes over anything else.
func (p *parser) members(depth int, member func(key []byte) error) error {
	c, err := p.next()
	if err != nil {
		return err
	}
	if c != '{' {
		p.back()
		return p.skip(depth)
	}
	return p.object(member)
}

// events reads the list of them.
func (p *parser) events() error {
	p.found = true
	return p.array(func() error {
		c, err := p.next()
		if err != nil {
			return err
		}
		if c != '{' {
			p.back()
			return p.skip(2)
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
