package cuda

import (
	"errors"
	"math/rand/v2"
	"testing"

	"dev.gpustall/engine/device"
)

// bank is a driver's memory of a given size.
type bank struct {
	free int64
	next uint64
	live map[uint64]int64
}

var errBank = errors.New("the bank is empty")

func newArena(size int64) (*arena, *bank) {
	b := &bank{free: size, next: 1 << 40, live: map[uint64]int64{}}
	return &arena{
		grow: func(n int64) (uint64, error) {
			if n > b.free {
				return 0, errBank
			}
			b.free -= n
			at := b.next
			b.next += uint64(n) + 1<<30
			b.live[at] = n
			return at, nil
		},
		shrink: func(at uint64) error {
			if b.live[at] == 0 {
				return errors.New("not allocated")
			}
			b.free += b.live[at]
			delete(b.live, at)
			return nil
		},
	}, b
}

// Random allocations and frees never overlap, and everything comes back.
func TestArena(t *testing.T) {
	a, bank := newArena(1 << 30)
	rng := rand.New(rand.NewPCG(1, 1))
	var live []*block
	var held int64
	for range 5000 {
		if len(live) > 0 && rng.IntN(100) < 48 {
			i := rng.IntN(len(live))
			held -= live[i].size
			a.free(live[i])
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
		} else {
			n := int64(1 + rng.IntN(1<<uint(4+rng.IntN(18))))
			b, err := a.alloc(n)
			if err != nil {
				t.Fatal(err)
			}
			if b.addr%alignment != 0 || b.size < n {
				t.Fatalf("alloc(%d) = %+v", n, b)
			}
			for _, o := range live {
				if b.addr < o.end() && o.addr < b.end() {
					t.Fatalf("%+v overlaps %+v", b, o)
				}
			}
			if a.find(device.Buffer{Addr: b.addr, Size: int(n)}) != b || a.find(device.Buffer{Addr: b.addr + uint64(n) - 1, Size: 1}) != b || a.find(device.Buffer{Addr: b.addr + uint64(n), Size: 1}) == b {
				t.Fatalf("find does not find %+v", b)
			}
			live = append(live, b)
			held += b.size
		}
		if a.held != held || a.peak < held {
			t.Fatalf("held %d and peak %d, want held %d", a.held, a.peak, held)
		}
	}
	for _, b := range live {
		a.free(b)
	}
	if a.held != 0 || len(a.pieces) != 1 || len(bank.live) != 1 {
		t.Errorf("after freeing everything: %d bytes held, %d pieces, %d with the driver", a.held, len(a.pieces), len(bank.live))
	}
	a.close()
	if len(bank.live) != 0 {
		t.Error("close kept memory")
	}
}

func TestArenaReferences(t *testing.T) {
	a, _ := newArena(minPiece)
	b, err := a.alloc(1000)
	if err != nil {
		t.Fatal(err)
	}
	b.refs++
	a.free(b)
	if c, _ := a.alloc(1000); c.addr == b.addr {
		t.Error("memory that a program refers to was handed out again")
	}
	if a.find(device.Buffer{Addr: b.addr, Size: 4}) != nil {
		t.Error("freed memory counts as allocated")
	}
	a.release(b)
	if c, _ := a.alloc(1000); c.addr != b.addr {
		t.Error("released memory was not handed out again")
	}
}

func TestArenaExhausted(t *testing.T) {
	a, _ := newArena(minPiece + minPiece/2)
	if _, err := a.alloc(minPiece); err != nil {
		t.Fatal(err)
	}
	// Less than a whole piece is left: the rest can still be had.
	b, err := a.alloc(minPiece / 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.alloc(minPiece); !errors.Is(err, errBank) {
		t.Errorf("%v, want the driver's error", err)
	}
	a.free(b)
	if _, err := a.alloc(minPiece / 4); err != nil {
		t.Errorf("after an allocation failed: %v", err)
	}
}

// A reservation holds: once what it lacks was taken in one piece, and the blocks it
// counts on were freed, its allocations ask the driver for nothing. What it takes is
// no more than they need together.
func TestArenaReservation(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	for range 300 {
		a, bank := newArena(1 << 40)
		grow, asked := a.grow, 0
		a.grow = func(n int64) (uint64, error) { asked++; return grow(n) }
		var live []*block
		for range 1 + rng.IntN(4) { // changes, one after the other
			instead := map[*block]bool{}
			var keep []*block
			for _, b := range live {
				if rng.IntN(2) == 0 {
					instead[b] = true
				} else {
					keep = append(keep, b)
				}
			}
			var sizes []int64
			total := int64(0)
			for range 1 + rng.IntN(8) {
				n := 1 + rng.Int64N(1<<uint(8+rng.IntN(20)))
				sizes = append(sizes, n)
				total += round(n, alignment)
			}
			if a.lacks(sizes, instead, false) > 0 {
				idle := a.idle()
				piece := a.lacks(sizes, instead, true)
				if piece < a.lacks(sizes, instead, false) || piece > round(total, 2<<20) {
					t.Fatalf("a piece of %d for sizes of %d", piece, total)
				}
				held := len(bank.live)
				a.trim()
				if a.idle() != 0 || idle > 0 && len(bank.live) >= held {
					t.Fatalf("%d bytes stay idle", a.idle())
				}
				if err := a.reserve(piece); err != nil {
					t.Fatal(err)
				}
			}
			asked = 0
			for b := range instead {
				a.free(b)
			}
			live = keep
			for _, n := range sizes {
				b, err := a.alloc(n)
				if err != nil {
					t.Fatal(err)
				}
				live = append(live, b)
			}
			inBank := int64(0)
			for _, n := range bank.live {
				inBank += n
			}
			if a.size() != inBank {
				t.Fatalf("the pieces have %d bytes, the driver gave %d", a.size(), inBank)
			}
			if asked != 0 {
				t.Fatalf("the driver was asked %d times after the reservation of %v", asked, sizes)
			}
		}
		a.close()
		if len(bank.live) != 0 {
			t.Fatal("close kept memory")
		}
	}
}
