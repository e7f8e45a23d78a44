package ptxvm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Module is a parsed PTX text. Its functions are compiled when first launched;
// it can be used from several goroutines.
type Module struct {
	Name    string
	Target  string // "sm_80"
	lines   []string
	shared  []variable // declared for all functions
	entries map[string]*function
}

// function is an entry point.
type function struct {
	name       string
	module     *Module
	params     []variable
	paramBytes int
	maxThreads [3]int // .maxntid or .reqntid; 0: not said
	required   bool   // .reqntid
	body       []token
	compile    func() (*program, error)

	mu  sync.Mutex
	ran []bool // by instruction
}

// variable is a parameter or an array in shared memory.
type variable struct {
	name    string
	typ     string // without the dot
	size    int    // bytes; of all elements
	align   int
	offset  int
	dynamic bool // the launch says how long it is
}

// Parse reads a module. The name is for messages.
func Parse(name string, text []byte) (*Module, error) {
	tokens, err := scan(string(text))
	if err != nil {
		return nil, fmt.Errorf("ptxvm: %s: %w", name, err)
	}
	m := &Module{Name: name, lines: strings.Split(string(text), "\n"), entries: map[string]*function{}}
	c := &cursor{tokens: tokens}
	for c.more() {
		m.directive(c)
	}
	if c.err != nil {
		return nil, fmt.Errorf("ptxvm: %s: %w", name, c.err)
	}
	return m, nil
}

// Entries returns the names of the module's entry points, sorted.
func (m *Module) Entries() []string {
	var names []string
	for n := range m.entries {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// directive reads one directive of the module ("Directives").
func (m *Module) directive(c *cursor) {
	switch d := c.next(); d {
	case ".version":
		c.next()
	case ".target":
		m.Target = c.next()
	case ".address_size":
		if n := c.next(); n != "64" {
			c.fail("addresses of %s bits", n)
		}
	case ".visible":
		c.expect(".entry")
		m.entry(c)
	case ".extern":
		c.expect(".shared")
		m.array(c)
	case ".shared":
		m.array(c)
	default:
		c.fail("unknown directive %q", d)
	}
}

func (m *Module) array(c *cursor) {
	m.shared = append(m.shared, declared(c))
	c.expect(";")
}

func (m *Module) entry(c *cursor) {
	f := &function{name: c.next(), module: m}
	f.compile = sync.OnceValues(func() (*program, error) { return compile(f) })
	c.expect("(")
	for !c.accept(")") && c.more() {
		c.expect(".param")
		v := declared(c)
		// Parameters lie one behind the other, each aligned to its size ("Kernel
		// Function Parameters"), which is where the driver puts them.
		f.paramBytes = (f.paramBytes + v.align - 1) &^ (v.align - 1)
		v.offset = f.paramBytes
		f.paramBytes += v.size
		f.params = append(f.params, v)
		if c.peek() != ")" {
			c.expect(",")
		}
	}
	for !c.accept("{") && c.more() {
		switch d := c.next(); d {
		case ".maxntid", ".reqntid":
			f.required = d == ".reqntid"
			for i := range f.maxThreads {
				f.maxThreads[i] = 1
				if i == 0 || c.accept(",") {
					f.maxThreads[i] = c.number()
				}
			}
		case ".minnctapersm", ".maxnreg":
			c.number()
		default:
			c.fail("unknown directive %q of an entry", d)
		}
	}
	start := c.at
	for depth := 1; depth > 0 && c.err == nil; {
		switch c.next() {
		case "{":
			depth++
		case "}":
			depth--
		}
	}
	if c.err != nil {
		return
	}
	f.body = c.tokens[start : c.at-1]
	if m.entries[f.name] != nil {
		c.fail("a second entry %s", f.name)
	}
	m.entries[f.name] = f
}

// number reads a positive decimal number.
func (c *cursor) number() int {
	t := c.next()
	n, err := strconv.Atoi(t)
	if err != nil || n < 0 {
		c.fail("%q where a number belongs", t)
	}
	return n
}

// declared reads a variable behind its state space: [.align N] .type name [[N]].
func declared(c *cursor) variable {
	var v variable
	align := 0
	if c.accept(".align") {
		if align = c.number(); align&(align-1) != 0 || align == 0 || align > 1<<16 {
			c.fail("alignment %d", align)
		}
	}
	v.typ = strings.TrimPrefix(c.next(), ".")
	size := typeSize(v.typ)
	if size == 0 || v.typ == "pred" {
		c.fail("a variable of type %q", v.typ)
	}
	v.name, v.size, v.align = c.next(), size, max(size, align, 1)
	if c.accept("[") {
		if c.accept("]") {
			v.dynamic, v.size = true, 0
			return v
		}
		n := c.number()
		if n > 1<<20 {
			c.fail("%d elements", n)
		}
		v.size *= n
		c.expect("]")
	}
	return v
}

// typeSize returns the size of a fundamental type in bytes ("Fundamental Types"); 0 for
// other types.
func typeSize(t string) int {
	switch t {
	case "b8", "u8", "s8":
		return 1
	case "b16", "u16", "s16", "f16", "bf16":
		return 2
	case "b32", "u32", "s32", "f32", "f16x2", "bf16x2", "tf32":
		return 4
	case "b64", "u64", "s64", "f64":
		return 8
	case "pred":
		return 1
	}
	return 0
}
