package errs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

var errFull = errors.New("out of memory")

func TestError(t *testing.T) {
	missing := New("open data", "/x", "there is no such folder", "check the path")
	for _, tt := range []struct {
		name     string
		err      error
		sentence string
		parts    Error
	}{
		{"whole", missing,
			"open data /x: there is no such folder; check the path",
			Error{Op: "open data", Object: "/x", Reason: "there is no such folder", Hint: "check the path"}},
		{"a cause behind a reason is not printed", missing.Because(fs.ErrNotExist),
			"open data /x: there is no such folder; check the path",
			Error{Op: "open data", Object: "/x", Reason: "there is no such folder", Hint: "check the path"}},
		{"context of a plain error", Wrap(errFull, "train", "cnn on cpu", "lower batch_size"),
			"train cnn on cpu: out of memory; lower batch_size",
			Error{Op: "train", Object: "cnn on cpu", Reason: "out of memory", Hint: "lower batch_size"}},
		{"context, and what failed in it", Wrap(missing, "train", "cnn on cpu", "run it again"),
			"train cnn on cpu: open data /x: there is no such folder; check the path",
			Error{Op: "open data", Object: "/x", Reason: "there is no such folder", Hint: "check the path"}},
		{"context of the same object is not printed", Wrap(missing, "inspect", "/x", "run it again"),
			"open data /x: there is no such folder; check the path",
			Error{Op: "open data", Object: "/x", Reason: "there is no such folder", Hint: "check the path"}},
		{"context gives the hint that is missing", Wrap(New("read", "/x/1.jpg", "it is empty", ""), "train", "cnn", "run it again"),
			"train cnn: read /x/1.jpg: it is empty; run it again",
			Error{Op: "read", Object: "/x/1.jpg", Reason: "it is empty", Hint: "run it again"}},
		{"context twice, the hint of the inner", Wrap(Wrap(errFull, "allocate", "activations", "lower batch_size"), "train", "cnn", "run it again"),
			"train cnn: allocate activations: out of memory; lower batch_size",
			Error{Op: "allocate", Object: "activations", Reason: "out of memory", Hint: "lower batch_size"}},
		{"context gives the object that is missing", Wrap(&Error{Reason: "there are 2 GPUs"}, "open device", "cuda:7", "gpustall doctor lists them"),
			"open device cuda:7: there are 2 GPUs; gpustall doctor lists them",
			Error{Op: "open device", Object: "cuda:7", Reason: "there are 2 GPUs", Hint: "gpustall doctor lists them"}},
		{"words of another wrapper in between", Wrap(fmt.Errorf("epoch 3: %w", missing), "train", "cnn", "run it again"),
			"train cnn: epoch 3: open data /x: there is no such folder; check the path",
			Error{Op: "open data", Object: "/x", Reason: "there is no such folder", Hint: "check the path"}},
		{"the file system names the object", Wrap(&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission}, "create", "/x", "name another"),
			"create /x: permission denied; name another",
			Error{Op: "create", Object: "/x", Reason: "permission denied", Hint: "name another"}},
		{"the file system names another object", Wrap(&fs.PathError{Op: "open", Path: "/y", Err: fs.ErrPermission}, "create", "/x", "name another"),
			"create /x: open /y: permission denied; name another",
			Error{Op: "create", Object: "/x", Reason: "open /y: permission denied", Hint: "name another"}},
		{"no Error at all", errFull, "out of memory", Error{Reason: "out of memory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.err.Error(); got != tt.sentence {
				t.Errorf("it reads %q, want %q", got, tt.sentence)
			}
			got := Explain(tt.err)
			if got.Err = nil; got != tt.parts {
				t.Errorf("its parts are %+v, want %+v", got, tt.parts)
			}
		})
	}
}

func TestCause(t *testing.T) {
	err := Wrap(New("open", "/x", "gone", "").Because(fs.ErrNotExist), "train", "cnn", "")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("the cause is not found")
	}
	if Wrap(nil, "train", "cnn", "") != nil {
		t.Error("no error is one")
	}
	if e, ok := As(err); !ok || e.Op != "train" {
		t.Errorf("the outermost is %+v", e)
	}
	if _, ok := As(errFull); ok {
		t.Error("a plain error is taken for one of these")
	}
}

func TestJSON(t *testing.T) {
	b, err := json.Marshal(Explain(New("open", "/x", "gone", "look").Because(errFull)))
	if want := `{"operation":"open","object":"/x","reason":"gone","hint":"look"}`; err != nil || string(b) != want {
		t.Errorf("%s, %v, want %s", b, err, want)
	}
}
