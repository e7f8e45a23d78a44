// Package torch imports traces of PyTorch's profiler, which are in Chrome's format. It makes a session
// of a trace. A trace does not say what the DataLoader's workers did, so the session lacks that.
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

// Import makes a session of a trace, which is text or compressed by gzip. It reads r once, from its
// start, in bounded memory. Errors and the session call the trace by name. The snapshot's Meta lacks
// what only the caller knows: ID and Version. Its Ops say how long each operator took in all steps,
// the longest first. They are empty where the trace is too large for a table.
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
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, new(flate.CorruptInputError)):
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
	return rec, p.trace()
}

// meter counts the bytes read. It fails once the context has ended.
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

// A trace shrinks about 30 times when it is compressed. A file that grows more than maxGrowth times,
// past its first freeGrowth bytes, was made to keep its reader busy and is refused.
const (
	maxGrowth  = 300
	freeGrowth = 64 << 20
)

// expand returns the text of a trace.
func expand(m *meter) (io.Reader, error) {
	b := bufio.NewReaderSize(m, 1<<16)
	if packed, err := isPacked(b); !packed {
		if errors.Is(err, io.EOF) {
			err = nil // the parser reports it
		}
		return b, err
	}
	g := &growth{packed: m, b: b, z: new(gzip.Reader)}
	return g, g.member()
}

// isPacked reports whether a reader begins as gzip does.
func isPacked(b *bufio.Reader) (bool, error) {
	head, err := b.Peek(2)
	return err == nil && head[0] == 0x1f && head[1] == 0x8b, err
}

// growth expands a compressed trace, and fails where it grows too much.
type growth struct {
	packed *meter
	b      *bufio.Reader
	z      *gzip.Reader
	n      int64
}

// member begins the next member of a gzip file.
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

// next goes on after a member: with another one, or to the end. Zeros before it are padding of tapes
// or of a store's blocks, and are skipped, as gzip does.
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

// opens reads the bracket with which the next value begins, and reports whether it was that one. It
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
