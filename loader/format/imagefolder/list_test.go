package imagefolder

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"dev.gpustall/loader"
)

// TestListing follows what torchvision's ImageFolder lists for the same trees.
func TestListing(t *testing.T) {
	tests := []struct {
		name    string
		tree    []string
		open    func(string) (*Dataset, error)
		classes []string
		files   []string // path:label
	}{
		{"sorted", []string{"dog/b.png", "dog/a.jpg", "cat/z.JPEG", "cat/readme.txt", "notes.txt"}, Open,
			[]string{"cat", "dog"}, []string{"cat/z.JPEG:0", "dog/a.jpg:1", "dog/b.png:1"}},
		{"bytes order, not letters", []string{"b/1.png", "B/1.png", "a/10.png", "a/2.png"}, Open,
			[]string{"B", "a", "b"}, []string{"B/1.png:0", "a/10.png:1", "a/2.png:1", "b/1.png:2"}},
		{"nested", []string{"c/x.png", "c/sub/y.png", "c/sub/deep/z.png", "c/a/w.png"}, Open,
			[]string{"c"}, []string{"c/x.png:0", "c/a/w.png:0", "c/sub/y.png:0", "c/sub/deep/z.png:0"}},
		{"hidden files and folders count", []string{".h/1.png", "c/.x.png"}, Open,
			[]string{".h", "c"}, []string{".h/1.png:0", "c/.x.png:1"}},
		{"links", []string{"store/a.png", "root/c/l.png -> ../../store/a.png", "root/d -> ../store"}, func(p string) (*Dataset, error) { return Open(filepath.Join(p, "root")) },
			[]string{"c", "d"}, []string{"c/l.png:0", "d/a.png:1"}},
		{"a link round and round", []string{"c/a.png", "c/again -> ."}, Open,
			[]string{"c"}, []string{"c/a.png:0"}},
		{"a folder named like an image", []string{"c/a.png/b.jpg", "c/d.jpg/"}, Open,
			[]string{"c"}, []string{"c/a.png/b.jpg:0"}},
		{"every extension", []string{"c/1.bmp", "c/2.PGM", "c/3.ppm", "c/4.tif", "c/5.tiff", "c/6.webp", "c/7.Jpeg", "c/8.gif", "c/9.pbm", "c/jpg", "c/a.jpg.txt"}, Open,
			[]string{"c"}, []string{"c/1.bmp:0", "c/2.PGM:0", "c/3.ppm:0", "c/4.tif:0", "c/5.tiff:0", "c/6.webp:0", "c/7.Jpeg:0"}},
		{"train split", []string{"train/c/a.png", "val/c/b.png"}, Open, []string{"c"}, []string{"c/a.png:0"}},
		{"val split", []string{"train/c/a.png", "val/c/b.png"}, OpenTest, []string{"c"}, []string{"c/b.png:0"}},
		{"test split", []string{"train/c/a.png", "test/c/b.png"}, OpenTest, []string{"c"}, []string{"c/b.png:0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			tree(t, root, tt.tree...)
			d, err := tt.open(root)
			if err != nil {
				t.Fatal(err)
			}
			in := d.Info()
			if !slices.Equal(in.Classes, tt.classes) || in.Format != Format || in.Synthetic || in.Samples != len(tt.files) || in.Name == "" {
				t.Errorf("Info = %+v", in)
			}
			var got []string
			for i := range in.Samples {
				s := loader.Sample{Index: i}
				if err := d.Read(context.Background(), &s); err != nil {
					t.Fatal(err)
				}
				got = append(got, filepath.ToSlash(d.files[i].path)+":"+strconv.Itoa(int(s.Label)))
			}
			if !slices.Equal(got, tt.files) {
				t.Errorf("got %q, want %q", got, tt.files)
			}
		})
	}
}

func TestOpenErrors(t *testing.T) {
	tests := []struct {
		name string
		tree []string
		open func(string) (*Dataset, error)
		want string
	}{
		{"missing", nil, func(p string) (*Dataset, error) { return Open(filepath.Join(p, "none")) }, "no such folder"},
		{"no classes", []string{"a.png"}, Open, "give a folder with a folder"},
		{"empty class", []string{"a/1.png", "b/"}, Open, "class folder b holds no"},
		{"class without images", []string{"a/1.png", "b/1.gif"}, Open, "class folder b holds no"},
		{"a file", []string{"a.png"}, func(p string) (*Dataset, error) { return Open(filepath.Join(p, "a.png")) }, "give a folder"},
		{"no evaluation split", []string{"a/1.png"}, OpenTest, "no folder val"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			tree(t, root, tt.tree...)
			_, err := tt.open(root)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), root) {
				t.Errorf("error %v does not say %q", err, tt.want)
			}
		})
	}
}

// TestStrangeNames: Linux allows any bytes in a name but / and NUL. They are read like any
// other name, and an error about one is a line of plain text.
func TestStrangeNames(t *testing.T) {
	names := []string{"new\nline.png", "latin1-caf\xe9.png", "esc\x1b[2J.png", " .png", "-n.png", "ünïcode 日本.png"}
	root := t.TempDir()
	for _, n := range names {
		tree(t, root, "c\nlass/"+n)
	}
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if d.Info().Samples != len(names) || d.Info().Classes[0] != "c\nlass" {
		t.Fatalf("Info = %+v", d.Info())
	}
	for i := range names {
		s := loader.Sample{Index: i}
		if err := errors.Join(d.Read(t.Context(), &s), d.Decode(&s)); err != nil || s.W != 2 {
			t.Errorf("%q: %v", d.Path(i), err)
		}
		s.Raw = s.Raw[:10]
		err := d.Decode(&s)
		for _, r := range err.Error() {
			if r == utf8.RuneError || !unicode.IsPrint(r) {
				t.Errorf("%q has %U in it", err, r)
			}
		}
	}
}

// TestLinkedFolders: folders that link to one another in every order are refused quickly,
// instead of being listed without end.
func TestLinkedFolders(t *testing.T) {
	root := t.TempDir()
	const n = 10 // 10! paths
	for i := range n {
		for j := range n {
			if i != j {
				tree(t, root, fmt.Sprintf("c/%d/to%d -> ../%d", i, j, j))
			}
		}
	}
	_, err := Open(root)
	if err == nil || !strings.Contains(err.Error(), "remove links") {
		t.Errorf("err = %v", err)
	}
}

// TestBrokenLinks: as with torchvision, broken links are listed, and reading one gives the
// reason.
func TestBrokenLinks(t *testing.T) {
	root := t.TempDir()
	tree(t, root, "c/round.png -> round.png", "c/gone.png -> nowhere.png")
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"no such file or directory; put it back", "too many levels of symbolic links; remove the link"} {
		err := d.Read(t.Context(), &loader.Sample{Index: i})
		if err == nil || !strings.Contains(err.Error(), d.Path(i)+": "+want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
