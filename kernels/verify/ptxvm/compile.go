package ptxvm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// compiler turns a function's tokens into a program.
type compiler struct {
	cursor
	p       *program
	scope   *scope
	params  map[string]variable
	shared  map[string]bool
	consts  map[constant]register // by class, size and value
	special map[string]register
	jumps   []jump
	in      *instruction // under construction
}

// scope is a pair of braces: registers and labels in it are its own.
type scope struct {
	outer  *scope
	regs   map[string]register
	labels map[string]int
}

type jump struct {
	from  int
	label string
	scope *scope
	line  int
}

func compile(f *function) (*program, error) {
	c := &compiler{
		cursor: cursor{tokens: f.body},
		p:      &program{fn: f},
		params: map[string]variable{}, shared: map[string]bool{},
		consts: map[constant]register{}, special: map[string]register{},
	}
	for _, v := range f.params {
		c.params[v.name] = v
	}
	// Addresses of shared arrays are needed while compiling, so they come first.
	c.arrays()
	c.at = 0
	c.open()
	for c.more() {
		c.statement()
	}
	for _, j := range c.jumps {
		s := j.scope
		for s != nil && !s.has(j.label) {
			s = s.outer
		}
		if s == nil {
			c.cursor.err = errors.Join(c.cursor.err, fmt.Errorf("line %d: no label %s", j.line, j.label))
			continue
		}
		c.p.code[j.from].target = s.labels[j.label]
	}
	if c.err != nil {
		return nil, fmt.Errorf("ptxvm: %s: %s: %w", f.module.Name, f.name, c.err)
	}
	f.ran = make([]bool, len(c.p.code))
	return c.p, nil
}

func (s *scope) has(label string) bool { _, ok := s.labels[label]; return ok }

func (c *compiler) open() {
	c.scope = &scope{c.scope, map[string]register{}, map[string]int{}}
}

// arrays finds the function's shared arrays, and lays them out with the module's.
func (c *compiler) arrays() {
	var dynamic []variable
	all := c.p.fn.module.shared
	for c.more() {
		if c.next() == ".shared" {
			all = append(all[:len(all):len(all)], declared(&c.cursor))
		}
	}
	for _, v := range all {
		if v.dynamic {
			dynamic = append(dynamic, v)
		} else {
			c.p.shared = append(c.p.shared, v)
		}
	}
	if len(dynamic) > 1 {
		c.fail("%d arrays of dynamic shared memory", len(dynamic))
	}
	c.p.layout(dynamic)
	for _, v := range c.p.shared {
		c.shared[v.name] = true
	}
	if d := c.p.dynamic; d != nil {
		c.shared[d.name] = true
	}
}

func (c *compiler) address(shared string) uint64 {
	for _, v := range c.p.shared {
		if v.name == shared {
			return uint64(v.offset)
		}
	}
	return uint64(c.p.dynamic.offset)
}

// statement reads a declaration, a label, a brace or an instruction.
func (c *compiler) statement() {
	switch t := c.peek(); {
	case c.accept("{"):
		c.open()
	case c.accept("}"):
		if c.scope = c.scope.outer; c.scope == nil {
			c.fail("a brace too many")
		}
	case c.accept(".reg"):
		c.declare()
	case c.accept(".shared"):
		declared(&c.cursor)
		c.expect(";")
	case c.accept(".pragma"):
		if s := c.next(); s != `"nounroll"` {
			c.fail("unknown pragma %s", s)
		}
		c.expect(";")
	case c.accept(";"):
	case strings.HasPrefix(t, "."):
		c.fail("unknown directive %q", t)
	case c.at+1 < len(c.tokens) && c.tokens[c.at+1].text == ":":
		if c.scope.has(t) {
			c.fail("a second label %s", t)
		}
		c.scope.labels[t] = len(c.p.code)
		c.at += 2
	default:
		c.instruction()
	}
}

// declare reads registers: .reg .type name, name<count>;
func (c *compiler) declare() {
	typ := strings.TrimPrefix(c.next(), ".")
	for c.err == nil {
		name := c.next()
		if c.accept("<") {
			n := c.number()
			if n > 1<<16 {
				c.fail("%d registers", n)
				return
			}
			c.expect(">")
			for i := range n {
				c.register(name+strconv.Itoa(i), typ)
			}
		} else {
			c.register(name, typ)
		}
		if c.accept(";") {
			return
		}
		c.expect(",")
	}
}

func (c *compiler) register(name, typ string) {
	if _, ok := c.scope.regs[name]; ok {
		c.fail("a second register %s", name)
	}
	c.scope.regs[name] = c.allocate(typ)
}

// allocate makes a register of a type ("Register State Space": 8-bit ones there
// are none).
func (c *compiler) allocate(typ string) register {
	r := register{id: c.p.ids, size: typeSize(typ)}
	n := &c.p.n32
	switch {
	case typ == "pred":
		r.class, r.size, n = predicate, 0, &c.p.nPred
	case r.size == 2 || r.size == 4:
		r.class = bits32
	case r.size == 8:
		r.class, n = bits64, &c.p.n64
	default:
		c.fail("registers of type %q", typ)
	}
	r.slot = *n
	*n++
	c.p.ids++
	return r
}

// constantOf returns a register that always holds v, cut to size.
func (c *compiler) constantOf(v uint64, size int) register {
	key := constant{value: v}
	switch size {
	case 0:
		key.class = predicate
	case 8:
		key.class = bits64
	default:
		key.class = bits32
		v &= 1<<(8*size) - 1
		key.value = v
	}
	key.size = size
	if r, ok := c.consts[key]; ok {
		return r
	}
	r := c.allocate(map[int]string{0: "pred", 2: "b16", 4: "b32", 8: "b64"}[size])
	c.consts[key] = r
	c.p.constants = append(c.p.constants, constant{r, v})
	return r
}

// instruction reads [@[!]p] opcode operands;
func (c *compiler) instruction() {
	in := instruction{guard: -1}
	c.in = &in
	if c.accept("@") {
		in.negate = c.accept("!")
		r := c.lookup(c.next())
		if r.class != predicate {
			c.fail("a guard that is no predicate")
		}
		in.guard = r.slot
		in.reads = append(in.reads, r.id)
	}
	in.line = c.line()
	op := c.next()
	var ops []operand
	for c.err == nil && !c.accept(";") {
		ops = append(ops, c.operand())
		if c.peek() != ";" {
			c.expect(",")
		}
	}
	end := c.at
	if c.err != nil {
		return
	}
	c.at-- // errors name this line
	parts := strings.Split(op, ".")
	build := builders[parts[0]]
	if build == nil {
		c.fail("unknown instruction %q", op)
		return
	}
	b := &builder{compiler: c, in: &in, mods: parts[1:], ops: ops}
	build(b)
	if c.err == nil && len(b.mods) > 0 {
		c.fail("unknown modifier .%s of %s", b.mods[0], op)
	}
	if c.err == nil && len(b.ops) > 0 {
		c.fail("%s has %d operands too many", op, len(b.ops))
	}
	if c.err != nil {
		return
	}
	if in.run == nil && in.kind == plain {
		c.fail("%s does nothing", op)
		return
	}
	c.at = end
	c.p.code = append(c.p.code, in)
}

func (c *compiler) lookup(name string) register {
	for s := c.scope; s != nil; s = s.outer {
		if r, ok := s.regs[name]; ok {
			return r
		}
	}
	c.fail("no register %s", name)
	return register{}
}
