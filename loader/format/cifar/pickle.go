package cifar

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"unicode/utf8"
	"unsafe"

	"github.com/nlpodyssey/gopickle/pickle"
	"github.com/nlpodyssey/gopickle/types"

	"dev.gpustall/engine/base/errs"
)

const pickleHint = "download or unpack it again"

// parsePython reads a batch of the Python version: a pickled dict. Its "data" is a uint8 array
// [n,3072], a row for each image's planes; its "labels" is a list.
func parsePython(v *version, name string, b []byte) (*content, error) {
	d, err := unpickleDict(b)
	if err != nil {
		return nil, err
	}
	arr, ok := lookup(d, "data").(*ndarray)
	if !ok || !arr.set {
		return nil, errs.Reason(`the pickle has no array "data", so it is not a CIFAR-10 batch`, pickleHint)
	}
	if arr.dtype == nil || !arr.dtype.uint8() || len(arr.shape) != 2 || arr.shape[1] != Pixels {
		return nil, errs.Reason(fmt.Sprintf(`its "data" is an array %v of %s instead of [n %d] of uint8, so it is not a CIFAR-10 batch`, arr.shape, arr.dtype, Pixels), pickleHint)
	}
	n := arr.shape[0]
	if n == 0 || n > maxPickle/Pixels || len(arr.data) != n*Pixels {
		return nil, errs.Reason(fmt.Sprintf(`its "data" holds %d bytes where %d samples need %d, so it is truncated or damaged`, len(arr.data), n, n*Pixels), pickleHint)
	}
	list, ok := lookup(d, v.labelKey).(*types.List)
	if !ok || list.Len() != n {
		return nil, errs.Reason(fmt.Sprintf(`its %q is not a list of %d numbers, so it is not a %s batch`, v.labelKey, n, v.name), pickleHint)
	}
	labels := make([]byte, n)
	for i := range labels {
		l, ok := list.Get(i).(int)
		if !ok || l < 0 || l > 255 {
			return nil, errs.Reason(fmt.Sprintf("sample %d has the label %v, which is no class, so it is damaged", i, list.Get(i)), pickleHint)
		}
		labels[i] = byte(l)
	}
	return &content{part: part{file: name, n: n, labels: labels, planes: bytes.NewReader(arr.rows()), stride: Pixels}}, nil
}

// parsePythonMeta reads a dict that has the classes' names.
func parsePythonMeta(v *version, b []byte) (*content, error) {
	d, err := unpickleDict(b)
	if err != nil {
		return nil, err
	}
	list, ok := lookup(d, v.nameKey).(*types.List)
	if !ok || list.Len() != v.classes {
		return &content{}, nil
	}
	names := make([]string, v.classes)
	for i := range names {
		if names[i], ok = text(list.Get(i)); !ok || !utf8.ValidString(names[i]) {
			return &content{}, nil
		}
	}
	return &content{names: names}, nil
}

// unpickleDict runs the pickle machine on b. guard has to pass first, so that what the machine
// allocates is bounded. The only classes it can reach are numpy's array and dtype and the codec
// that Python 3 writes bytes with.
func unpickleDict(b []byte) (d *types.Dict, err error) {
	if err := guard(b); err != nil {
		return nil, err
	}
	// The machine trusts the types on its stack: a damaged pickle panics.
	defer func() {
		if p := recover(); p != nil {
			d, err = nil, errs.Reason(fmt.Sprintf("the pickle is damaged (%.80s)", fmt.Sprint(p)), pickleHint)
		}
	}()
	u := pickle.NewUnpickler(bytes.NewReader(b))
	u.FindClass = classes{&latin1{budget: len(b)}}.find
	v, err := u.Load()
	if err != nil {
		return nil, errs.Reason(fmt.Sprintf("the pickle is damaged (%.160s)", err.Error()), pickleHint)
	}
	d, ok := v.(*types.Dict)
	if !ok {
		return nil, errs.Reason("the pickle is not a dict, so it is not a CIFAR-10 file", pickleHint)
	}
	return d, nil
}

// lookup finds a key that Python 2 wrote as str and Python 3 as str or bytes.
func lookup(d *types.Dict, key string) any {
	var v any
	for _, e := range *d {
		if k, ok := text(e.Key); ok && k == key {
			v = e.Value // the last one wins, as in Python
		}
	}
	return v
}

func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// classes are all names that a pickle may use.
type classes struct{ latin1 *latin1 }

func (c classes) find(module, name string) (any, error) {
	switch module {
	case "numpy.core.multiarray", "numpy._core.multiarray":
		if name == "_reconstruct" {
			return reconstruct{}, nil
		}
	case "numpy":
		switch name {
		case "ndarray":
			return ndarrayClass{}, nil
		case "dtype":
			return dtypeClass{}, nil
		}
	case "_codecs":
		if name == "encode" {
			return c.latin1, nil
		}
	}
	return nil, fmt.Errorf("it names %.40s.%.40s, which no CIFAR-10 file needs and which is never called", module, name)
}

// ndarray is numpy's array as its pickle builds it: an empty one from
// _reconstruct, then the state (version, shape, dtype, Fortran order, bytes).
type ndarray struct {
	set     bool
	shape   []int
	dtype   *dtype
	fortran bool
	data    string // a string, so that building many arrays from one string costs nothing
}

type (
	reconstruct  struct{}
	ndarrayClass struct{}
	dtypeClass   struct{}
)

// Call is numpy.core.multiarray._reconstruct(ndarray, (0,), b'b').
func (reconstruct) Call(args ...any) (any, error) {
	if len(args) != 3 {
		return nil, errors.New("_reconstruct needs three arguments")
	}
	if _, ok := args[0].(ndarrayClass); !ok {
		return nil, errors.New("_reconstruct of something other than ndarray")
	}
	return &ndarray{}, nil
}

// PySetState is ndarray.__setstate__.
func (a *ndarray) PySetState(state any) error {
	t, ok := state.(*types.Tuple)
	if !ok || t.Len() != 5 {
		return errors.New("the state of an array is not a 5-tuple")
	}
	shape, ok := t.Get(1).(*types.Tuple)
	if !ok || shape.Len() > 8 {
		return errors.New("the shape of an array is not a short tuple")
	}
	a.shape = make([]int, shape.Len())
	for i := range a.shape {
		switch n := shape.Get(i).(type) {
		case int:
			a.shape[i] = n
		case *big.Int:
			return errors.New("the shape of an array is absurd")
		}
		if a.shape[i] < 0 || a.shape[i] > maxFile {
			return errors.New("the shape of an array is absurd")
		}
	}
	if a.dtype, ok = t.Get(2).(*dtype); !ok {
		return errors.New("an array has no dtype")
	}
	a.fortran = t.Get(3) == true || t.Get(3) == 1
	switch v := t.Get(4).(type) {
	case []byte:
		a.data = unsafe.String(unsafe.SliceData(v), len(v)) // nobody writes to v
	case string:
		a.data = v
	default:
		return errors.New("an array has no bytes")
	}
	a.set = true
	return nil
}

// rows returns the array [n,Pixels] row by row.
func (a *ndarray) rows() []byte {
	if !a.fortran {
		return []byte(a.data)
	}
	n := a.shape[0]
	out := make([]byte, len(a.data))
	for j := range Pixels {
		for i := range n {
			out[i*Pixels+j] = a.data[j*n+i]
		}
	}
	return out
}

// dtype is numpy's element type; its state (byte order and so on) does not
// matter for bytes.
type dtype struct{ code string }

func (d *dtype) uint8() bool { return d.code == "u1" || d.code == "|u1" || d.code == "B" }

func (d *dtype) String() string {
	if d == nil {
		return "unknown type"
	}
	return fmt.Sprintf("%.20q", d.code)
}

// Call is numpy.dtype(code, align, copy).
func (dtypeClass) Call(args ...any) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("dtype needs an argument")
	}
	code, ok := text(args[0])
	if !ok {
		return nil, errors.New("dtype of something other than a string")
	}
	return &dtype{code}, nil
}

// PySetState is dtype.__setstate__.
func (*dtype) PySetState(any) error { return nil }

// latin1 is _codecs.encode(text, 'latin1'), which is how Python 3 writes bytes in
// protocol 2. A pickle may call it on one big string many times, hence the budget.
type latin1 struct{ budget int }

// Call encodes a string.
func (l *latin1) Call(args ...any) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("encode needs an argument")
	}
	s, ok := args[0].(string)
	if !ok {
		return nil, errors.New("encode of something other than a string")
	}
	n := utf8.RuneCountInString(s)
	if l.budget -= n; l.budget < 0 {
		return nil, errors.New("more encoded text than the file holds")
	}
	out := make([]byte, 0, n)
	for _, r := range s {
		if r > 255 {
			return nil, errors.New("encode of a string that is not Latin-1")
		}
		out = append(out, byte(r))
	}
	return out, nil
}
