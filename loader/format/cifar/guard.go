package cifar

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"dev.gpustall/engine/base/errs"
)

// Limits of guard. A real batch has about 45,000 operations: an integer for each
// label, a string and a memo entry for each file name.
const (
	maxOps  = 1 << 20
	maxLine = 1 << 10 // of an operand that ends with a newline
	maxInt  = 64      // bytes of a long integer
	// States set on objects. An array takes two; each may cost as much as the
	// largest dict in the file.
	maxBuilds = 64
)

// guard reads the operations of a pickle without running them (opcodes and operands as in
// Python's pickletools). It refuses what could make the machine allocate far more than the size
// of the file. This is operands that claim more bytes than there are, very long numbers, and
// too many operations or marks. It also refuses operations that no CIFAR-10 file has:
// persistent ids, extensions, instances, frames in frames. Everything else costs at most a few
// hundred bytes an operation.
func guard(b []byte) error {
	if len(b) > maxPickle {
		return errs.Reason(fmt.Sprintf("%d bytes, more than the %d that a CIFAR-10 batch may have", len(b), maxPickle), "check that it is one")
	}
	if len(b) == 0 {
		return errs.Reason("the file is empty", pickleHint)
	}
	marks, builds := 0, 0
	for ops, i := 0, 0; i < len(b); ops++ {
		op := b[i]
		i++
		if ops == maxOps || marks > maxOps/16 || builds > maxBuilds {
			return errs.Reason("the pickle has more operations than a CIFAR-10 file can have, so it is refused", pickleHint)
		}
		n, err := operand(op, b[i:])
		if err != nil {
			return errs.Reason(fmt.Sprintf("the pickle is damaged (%v at byte %d)", err, i-1), pickleHint)
		}
		if n > len(b)-i {
			return errs.Reason(fmt.Sprintf("the pickle ends within an operand at byte %d of %d, so it is truncated", i-1, len(b)), pickleHint)
		}
		i += n
		switch op {
		case '(':
			marks++
		case 'b':
			builds++
		case '.':
			return nil
		}
	}
	return errs.Reason(fmt.Sprintf("the pickle has no end after %d bytes, so it is truncated", len(b)), pickleHint)
}

// operand returns the length of the operand of op at the head of b.
func operand(op byte, b []byte) (int, error) {
	switch op {
	case '(', '.', '0', '1', '2', 'N', 'R', 'a', 'b', 'd', '}', 'e', 'l', ']', 's', 't', ')', 'u',
		0x85, 0x86, 0x87, 0x88, 0x89, 0x93, 0x94: // no operand
		return 0, nil
	case 'K', 'h', 'q', 0x80:
		return 1, nil
	case 'M':
		return 2, nil
	case 'J', 'j', 'r':
		return 4, nil
	case 'G':
		return 8, nil
	case 'I', 'L', 'F', 'S', 'V', 'g', 'p':
		return lines(b, 1)
	case 'c':
		return lines(b, 2)
	case 'U', 'C', 0x8c:
		return counted(b, 1)
	case 'T', 'X', 'B':
		return counted(b, 4)
	case 0x8d, 0x8e, 0x96:
		return counted(b, 8)
	case 0x8a:
		n, err := counted(b, 1)
		if err == nil && (n < 2 || n > 1+maxInt) {
			return 0, errors.New("an integer of absurd length")
		}
		return n, err
	case 0x95: // the frame's contents are read as they come
		n, err := counted(b, 8)
		if err == nil && n > len(b) {
			return 0, errors.New("a frame beyond the end")
		}
		return 8, err
	}
	return 0, fmt.Errorf("operation 0x%02x, which no CIFAR-10 file has,", op)
}

// counted returns the length of an operand that starts with its length in size little-endian
// bytes.
func counted(b []byte, size int) (int, error) {
	if len(b) < size {
		return size, nil // beyond the end: truncated
	}
	var w [8]byte
	copy(w[:], b[:size])
	n := binary.LittleEndian.Uint64(w[:])
	if n > maxPickle {
		return 0, errors.New("an operand of absurd length")
	}
	return size + int(n), nil
}

// lines returns the length of an operand of k lines.
func lines(b []byte, k int) (int, error) {
	n := 0
	for range k {
		head := b[n:min(len(b), n+maxLine)]
		j := bytes.IndexByte(head, '\n')
		if j < 0 {
			return 0, errors.New("a line without an end")
		}
		n += j + 1
	}
	return n, nil
}
