package cifar

import (
	"slices"
	"strconv"
)

// version is one published form of the data.
type version struct {
	name    string // of the data set
	format  string // as in loader.Info
	dir     string // as published ...
	archive string // ... and its tar.gz
	train   []string
	test    []string
	names   string // the file of the classes' names
	classes int
	python  bool

	// Bytes before the planes in a record of the binary version. The last of them is the class;
	// CIFAR-100 has a coarse class before it.
	labels int
	// In the Python version, the keys of the labels and of the classes' names.
	labelKey, nameKey string
}

func (v *version) record() int { return v.labels + Pixels }

// files returns the names by which a folder is recognised, in the binary and the Python
// version.
func (v *version) files() []string { return append(append([]string(nil), v.train...), v.test...) }

// has reports whether a file holds samples.
func (v *version) has(name string) bool { return slices.Contains(v.files(), name) }

// Format100 is the beginning of the names of CIFAR-100's formats.
const Format100 = "cifar100"

// versions are all known forms. Those whose files have plain names come last.
var versions = []*version{
	{
		name: "CIFAR-10", format: FormatBinary, dir: DirBinary, archive: ArchiveBinary, classes: Classes, labels: 1,
		train: numbered("data_batch_", ".bin"), test: []string{"test_batch.bin"}, names: "batches.meta.txt",
	},
	{
		name: "CIFAR-10", format: FormatPython, dir: DirPython, archive: ArchivePython, classes: Classes, python: true,
		train: numbered("data_batch_", ""), test: []string{"test_batch"}, names: "batches.meta", labelKey: "labels", nameKey: "label_names",
	},
	{
		name: "CIFAR-100", format: Format100 + "-binary", dir: "cifar-100-binary", archive: "cifar-100-binary.tar.gz", classes: 100, labels: 2,
		train: []string{"train.bin"}, test: []string{"test.bin"}, names: "fine_label_names.txt",
	},
	{
		name: "CIFAR-100", format: Format100 + "-python", dir: "cifar-100-python", archive: "cifar-100-python.tar.gz", classes: 100, python: true,
		train: []string{"train"}, test: []string{"test"}, names: "meta", labelKey: "fine_labels", nameKey: "fine_label_names",
	},
}

// plain reports whether other data could have files of the same names. Such a folder is
// recognised only by the file of the classes' names.
func (v *version) plain() bool { return v.classes != Classes }

func numbered(before, after string) []string {
	names := make([]string, Batches)
	for i := range names {
		names[i] = before + strconv.Itoa(i+1) + after
	}
	return names
}

// defaults returns the classes' names for data without the file of them.
func (v *version) defaults() []string {
	if v.classes == Classes {
		return classNames
	}
	names := make([]string, v.classes)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}

// dirs and archives return the names as published.
func dirs() (out []string) {
	for _, v := range versions {
		out = append(out, v.dir)
	}
	return out
}

func archives() (out []string) {
	for _, v := range versions {
		out = append(out, v.archive)
	}
	return out
}
