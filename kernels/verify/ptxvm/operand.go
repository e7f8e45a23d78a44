package ptxvm

import (
	"math"
	"strconv"
	"strings"
)

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
		if o.kind == isName && (o.name == "" || !wordByte(o.name[0])) {
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

// registerOperand returns a declared register or a special one ("Special Registers").
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
