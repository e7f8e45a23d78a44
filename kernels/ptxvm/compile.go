package ptxvm

import (
	"errors"
	"fmt"
	"math"
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

// constantOf is a register that always holds v, cut to size.
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

// operand is one operand as it is written.
type operand struct {
	reg     register
	kind    operandKind
	value   uint64 // of a number; bits of a float
	float   int    // bytes of a float's bits, for a number written as one
	name    string
	negated bool      // !p
	second  *operand  // p|q
	list    []operand // {a,b}
	offset  int64     // [base+offset]
}

type operandKind uint8

const (
	isRegister operandKind = iota
	isNumber
	isName   // of a variable or a label
	isVector // {a, b}
	isMemory // [base+offset]; base in list
)

func (c *compiler) operand() operand {
	var o operand
	switch t := c.peek(); {
	case c.accept("{"):
		o.kind = isVector
		for c.err == nil && !c.accept("}") {
			o.list = append(o.list, c.operand())
			if c.peek() != "}" {
				c.expect(",")
			}
		}
	case c.accept("["):
		o.kind = isMemory
		o.list = []operand{c.operand()}
		if c.accept("+") {
			o.offset = int64(c.operand().value)
		}
		c.expect("]")
	case c.accept("!"):
		o = c.operand()
		o.negated = true
	case c.accept("-"):
		o = c.operand()
		if o.kind != isNumber || o.float != 0 {
			c.fail("a minus before what is no number")
		}
		o.value = -o.value
	case strings.HasPrefix(t, "0f") || strings.HasPrefix(t, "0F"):
		o = c.float(t, 4)
	case strings.HasPrefix(t, "0d") || strings.HasPrefix(t, "0D"):
		o = c.float(t, 8)
	case t != "" && t[0] >= '0' && t[0] <= '9':
		v, err := strconv.ParseUint(strings.TrimSuffix(c.next(), "U"), 0, 64)
		if err != nil {
			c.fail("number %q", t)
		}
		o.kind, o.value = isNumber, v
	case strings.HasPrefix(t, "%"):
		o = c.registerOperand(c.next())
	default:
		o.name = c.next()
		o.kind = isName
		for s := c.scope; s != nil; s = s.outer {
			if r, ok := s.regs[o.name]; ok {
				o.kind, o.reg = isRegister, r
			}
		}
		if o.kind == isName && !c.shared[o.name] && !wordByte(o.name[0]) {
			c.fail("%q where an operand belongs", o.name)
		}
	}
	if c.err == nil && c.accept("|") {
		s := c.operand()
		o.second = &s
	}
	return o
}

func (c *compiler) float(t string, size int) operand {
	c.next()
	v, err := strconv.ParseUint(t[2:], 16, 8*size)
	if err != nil || len(t) != 2+2*size {
		c.fail("number %q", t)
	}
	return operand{kind: isNumber, value: v, float: size}
}

// registerOperand is a declared register or a special one ("Special Registers").
func (c *compiler) registerOperand(name string) operand {
	for s := c.scope; s != nil; s = s.outer {
		if r, ok := s.regs[name]; ok {
			return operand{reg: r}
		}
	}
	r, ok := c.special[name]
	if !ok {
		if !knownSpecial(name) {
			c.fail("unknown register %s", name)
			return operand{}
		}
		r = c.allocate("u32")
		c.special[name] = r
		c.p.specials = append(c.p.specials, special{r, name})
	}
	return operand{reg: r}
}

// fits says whether a number can be written in size bytes, signed or unsigned.
func fits(v uint64, size int) bool {
	if size == 8 {
		return true
	}
	s := int64(v)
	limit := int64(1) << (8 * size)
	return s >= -limit/2 && s < limit
}

func float32of(v uint32) float32 { return math.Float32frombits(v) }
