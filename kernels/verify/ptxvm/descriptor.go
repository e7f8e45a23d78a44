package ptxvm

// matrix reads rows first to first+count of an operand, 16 elements deep, as a
// descriptor says ("Shared Memory Matrix Layout", "Matrix Descriptor Format").
// Rows are those of A and the columns of B.
//
// 16 bytes (a chunk) hold 8 elements that follow one another along K, or, of what
// is transposed, along the rows. With S chunks in a swizzled line (1, 2, 4 or 8),
// the chunk of element (row, k) begins at
//
//	K-major:   row%8 * S chunks + row/8 * stride + k/8 * (1 chunk; of S = 1 leading)
//	MN-major:  k%8 * S chunks + row/8%S chunks + k/8 * stride + row/(8S) * leading
//	           (of S = 1 stride and leading change places)
//
// and then bits 4 to 6 of its address are exchanged by an exclusive or with bits
// 7 to 9, as many of them as S needs.
func (w *warp) matrix(p *asyncProduct, desc uint64, transposed bool, first, count int, to func(row, k int, v uint32)) {
	const spare = 3<<14 | 3<<30 | 7<<46 | 0x3ff<<52
	if desc&spare != 0 || desc>>49&7 != 0 {
		w.fail(-1, "matrix descriptor %#x with an offset, or with bits that mean nothing", desc)
		return
	}
	start, leading, stride := desc&0x3fff<<4, desc>>16&0x3fff<<4, desc>>32&0x3fff<<4
	chunks := [4]uint64{1, 8, 4, 2}[desc>>62]
	at := func(row, k uint64) uint64 {
		var off uint64
		switch {
		case !transposed && chunks == 1:
			off = row%8*16 + row/8*stride + k/8*leading
		case !transposed:
			off = row%8*chunks*16 + row/8*stride + k/8*16
		case chunks == 1:
			off = k%8*16 + row/8*stride + k/8*leading
		default:
			off = k%8*chunks*16 + row/8%chunks*16 + k/8*stride + row/(8*chunks)*leading
		}
		addr := start + off
		return addr ^ (addr>>7&(chunks-1))<<4
	}
	read := func(row, k uint64) []byte { return w.asyncRead(p, at(row, k)) }
	for i := 0; i < count*2; i++ {
		row, k := first+i/2, i%2*8 // the first element of a chunk
		if transposed {
			row, k = first+i/16*8, i%16
		}
		chunk := read(uint64(row), uint64(k))
		if chunk == nil {
			return
		}
		for e := range 8 {
			v := uint32(get(chunk[2*e:], 2))
			if transposed {
				to(row-first+e, k, v)
			} else {
				to(row-first, k+e, v)
			}
		}
	}
}

// asyncRead is 16 bytes as the asynchronous proxy reads them: what threads wrote
// must have been fenced by them for that proxy, then passed a barrier. (The manual
// would also have the fence behind the barrier, in the reading threads.)
func (w *warp) asyncRead(p *asyncProduct, addr uint64) []byte {
	s, at, ok := w.sharedRange(-1, addr, 16)
	if !ok {
		return nil
	}
	for i := at; i < at+16; i++ {
		if s.state[i] != written {
			w.fail(-1, "shared memory at %#x is read, but was never written, or a copy is under way", addr)
			return nil
		}
	}
	for i := at / 4; i < (at+16)/4; i++ {
		t := s.writer[i]
		if passed := w.block.proxies[t.thread()]; len(passed) <= int(s.proxy[i]) || passed[s.proxy[i]] == w.block.epoch {
			w.fail(-1, "shared memory at %#x is read through the asynchronous proxy: thread %d, which wrote it, passed no fence.proxy.async and barrier since", addr, t.thread())
			return nil
		}
		p.words = append(p.words, i)
	}
	if why := s.touch(at, 16, manyThreads, w.block.epoch, load); why != "" {
		w.fail(-1, "shared memory at %#x: %s", addr, why)
		return nil
	}
	return s.data[at : at+16]
}
