package ptxvm

import (
	"encoding/binary"
	"math/bits"
)

// "ld", "st", "atom" and "fence".
var accesses = map[string]func(*builder){
	"ld":    loads,
	"st":    stores,
	"atom":  atomics,
	"fence": fences,
}

// place is an address operand: [register+offset], or a variable.
type place struct {
	base   register
	offset int64
}

func (b *builder) place() place {
	o := b.operand()
	if b.err != nil {
		return place{}
	}
	if o.kind != isMemory {
		b.fail("an operand that is no address")
		return place{}
	}
	base := o.list[0]
	switch {
	case base.kind == isName && b.shared[base.name]:
		return place{b.read(base, 8), o.offset}
	case base.kind == isRegister && (base.reg.size == 4 || base.reg.size == 8):
		return place{b.read(base, base.reg.size), o.offset}
	}
	b.fail("an address that is neither a register nor a variable in shared memory")
	return place{}
}

func (p place) at(w *warp, l int) uint64 { return w.value(p.base, l) + uint64(p.offset) }

// wide says that global addresses have 64 bits.
func (b *builder) wide(p place) {
	if b.err == nil && p.base.size != 8 {
		b.fail("an address of %d bits in global memory", 8*p.base.size)
	}
}

// elements resolves the registers of a load or a store: one, or as many as the
// vector has. Registers may be wider than the type.
func (b *builder) elements(n, size int, use func(operand, int) register) []register {
	o := b.operand()
	list := []operand{o}
	if n > 1 {
		if o.kind != isVector || len(o.list) != n {
			b.fail("no vector of %d registers", n)
			return nil
		}
		list = o.list
	}
	var rs []register
	for _, e := range list {
		as := max(size, 2)
		if e.kind == isRegister && e.reg.size > as {
			as = e.reg.size
		}
		rs = append(rs, use(e, as))
	}
	return rs
}

// vectorType takes [.v2|.v4].type.
func (b *builder) vectorType() (n int, t string) {
	n = 1
	if b.has("v2") {
		n = 2
	} else if b.has("v4") {
		n = 4
	}
	t = b.one("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
	if n*typeSize(t) > 16 {
		b.fail("a vector of %d bytes", n*typeSize(t))
	}
	return n, t
}

func loads(b *builder) {
	if b.has("param") {
		parameter(b)
		return
	}
	space := b.one("global", "shared")
	k := load
	if space == "global" && b.has("nc") {
		k = constantLoad
	}
	n, t := b.vectorType()
	size := typeSize(t)
	ds := b.elements(n, size, b.write)
	p := b.place()
	access := (*warp).shared
	if space == "global" {
		b.wide(p)
		access = (*warp).global
	}
	sign := t[0] == 's'
	b.in.run = func(w *warp, m uint32) {
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			bytes := access(w, l, p.at(w, l), n*size, k)
			if bytes == nil {
				return
			}
			for i, d := range ds {
				v := get(bytes[i*size:], size)
				if sign {
					v = uint64(signed(v, size))
				}
				w.set(d, l, v)
			}
		}
	}
}

func stores(b *builder) {
	space := b.one("global", "shared")
	n, t := b.vectorType()
	size := typeSize(t)
	p := b.place()
	xs := b.elements(n, size, b.read)
	access := (*warp).shared
	if space == "global" {
		b.wide(p)
		access = (*warp).global
	}
	b.in.run = func(w *warp, m uint32) {
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			bytes := access(w, l, p.at(w, l), n*size, store)
			if bytes == nil {
				return
			}
			for i, x := range xs {
				put(bytes[i*size:], size, w.value(x, l))
			}
		}
	}
}

// PTX is little-endian ("Vectors" and the packing of "mov").
func get(b []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func put(b []byte, size int, v uint64) {
	switch size {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

// parameter is "ld.param": [name+offset], inside one parameter.
func parameter(b *builder) {
	_, t := b.vectorType()
	size := typeSize(t)
	d := b.write(b.operand(), size)
	o := b.operand()
	if b.err != nil {
		return
	}
	var v variable
	ok := o.kind == isMemory && o.list[0].kind == isName
	if ok {
		v, ok = b.params[o.list[0].name]
	}
	if !ok {
		b.fail("no parameter to load")
		return
	}
	if o.offset < 0 || int(o.offset)+size > v.size || (v.offset+int(o.offset))%size != 0 {
		b.fail("%d bytes at offset %d of parameter %s, which has %d", size, o.offset, v.name, v.size)
		return
	}
	at := v.offset + int(o.offset)
	b.in.run = b.lanes(func(w *warp, l int) { w.set(d, l, get(w.block.grid.params[at:], size)) })
}

// atomics is "atom.global.add.u32" and "atom.shared.add.u32".
func atomics(b *builder) {
	space := b.one("global", "shared")
	b.must("add", "u32")
	d, p, x := b.dst(4), b.place(), b.src(4)
	if space == "shared" {
		b.in.run = b.lanes(func(w *warp, l int) {
			if bytes := w.shared(l, p.at(w, l), 4, atomic); bytes != nil {
				old := uint32(get(bytes, 4))
				put(bytes, 4, uint64(old+w.r32[x.slot][l]))
				w.r32[d.slot][l] = old
			}
		})
		return
	}
	b.wide(p)
	b.in.run = b.lanes(func(w *warp, l int) {
		bytes := w.global(l, p.at(w, l), 4, atomic)
		if bytes == nil {
			return
		}
		old := uint32(get(bytes, 4))
		put(bytes, 4, uint64(old+w.r32[x.slot][l]))
		w.r32[d.slot][l] = old
		w.block.atomic = w.block.epoch
	})
}

// fences is "fence.acq_rel.gpu" and "fence.proxy.async.shared::cta", which makes
// the thread's writes to shared memory visible to the asynchronous proxy.
func fences(b *builder) {
	if b.has("proxy") {
		b.must("async", "shared::cta")
		b.in.run = b.lanes(func(w *warp, l int) {
			p := &w.block.proxies[w.first+l]
			*p = append(*p, w.block.epoch)
		})
		return
	}
	b.must("acq_rel", "gpu")
	b.in.run = b.lanes(func(w *warp, l int) {
		f := &w.block.fences[w.first+l]
		if len(*f) == 1<<fenceBits-1 {
			w.fail(l, "more fences than this package counts")
			return
		}
		*f = append(*f, w.block.epoch)
	})
}
