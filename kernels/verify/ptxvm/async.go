package ptxvm

// "Data Movement and Conversion Instructions: Asynchronous copy": cp.async and its
// groups. A copy's data land when the thread that started it waits for its group.
var asyncs = map[string]func(*builder){
	"cp": copyAsync,
}

// copying is a copy under way.
type copying struct {
	at   int // in shared memory
	data [16]byte
	n    int
}

// copies are the copies of a thread. open are those since the last commit.
type copies struct {
	open   []copying
	groups [][]copying
}

func copyAsync(b *builder) {
	b.must("async")
	switch b.one("ca", "cg", "commit_group", "wait_group", "wait_all") {
	case "commit_group":
		b.in.run = b.lanes(func(w *warp, l int) {
			c := &w.copies[l]
			c.groups = append(c.groups, c.open)
			c.open = nil
		})
	case "wait_group":
		o := b.operand()
		if o.kind != isNumber || o.value > 1<<20 {
			b.fail("no number of groups")
			return
		}
		n := int(o.value)
		b.in.run = b.lanes(func(w *warp, l int) {
			c := &w.copies[l]
			for len(c.groups) > n {
				w.land(l, c.groups[0])
				c.groups = c.groups[1:]
			}
		})
	case "wait_all":
		b.in.run = b.lanes(func(w *warp, l int) {
			c := &w.copies[l]
			for _, g := range append(c.groups, c.open) {
				w.land(l, g)
			}
			*c = copies{}
		})
	case "cg":
		b.start(true)
	default:
		b.start(false)
	}
}

// start is cp.async.ca or .cg: [shared], [global], size, and how many bytes there
// are to read, of which the rest are zeros.
func (b *builder) start(only16 bool) {
	b.must("shared", "global")
	to, from := b.place(), b.place()
	b.wide(from)
	o := b.operand()
	size := int(o.value)
	if o.kind != isNumber || size != 16 && (only16 || size != 4 && size != 8) {
		b.fail("a copy of %d bytes", size)
		return
	}
	source := b.constantOf(uint64(size), 4)
	if len(b.ops) > 0 {
		source = b.src(4)
	}
	b.in.run = b.lanes(func(w *warp, l int) {
		n, addr := int(w.r32[source.slot][l]), from.at(w, l)
		s, at, ok := w.sharedRange(l, to.at(w, l), size)
		switch {
		case !ok:
			return
		case n > size:
			w.fail(l, "%d bytes to read for a copy of %d", n, size)
			return
		case addr&uint64(size-1) != 0:
			w.fail(l, "a copy of %d bytes from %#x, which is not aligned", size, addr)
			return
		}
		c := copying{at: at, n: size}
		if n > 0 {
			var got []byte
			if n == size {
				got = w.global(l, addr, n, load)
			} else {
				for i := range n {
					b := w.global(l, addr+uint64(i), 1, load)
					if b == nil {
						return
					}
					got = append(got, b[0])
				}
			}
			if got == nil {
				return
			}
			copy(c.data[:], got)
		}
		// From now on nobody may touch the place: the copy may happen at once.
		for i := at; i < at+size; i++ {
			if s.state[i] == underWay {
				w.fail(l, "a copy to shared memory at %#x, where one is under way", at+sharedBase)
				return
			}
			s.state[i] = underWay
		}
		if why := s.touch(at, size, w.first+l, w.block.epoch, store); why != "" {
			w.fail(l, "a copy to shared memory at %#x: %s", at+sharedBase, why)
			return
		}
		w.copies[l].open = append(w.copies[l].open, c)
	})
}

// land ends a group. From now on its data count as the thread's own writes, which others see after a
// barrier.
func (w *warp) land(l int, g []copying) {
	s := w.block.memory
	for i := range g {
		c := &g[i]
		copy(s.data[c.at:c.at+c.n], c.data[:])
		for j := c.at; j < c.at+c.n; j++ {
			s.state[j] = written
		}
		for j := c.at / 4; j < (c.at+c.n)/4; j++ {
			s.writer[j] = newTouch(w.block.epoch, w.first+l)
		}
		s.wrote(c.at, c.n, len(w.block.proxies[w.first+l]))
	}
}
