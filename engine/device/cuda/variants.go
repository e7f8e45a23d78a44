//go:build cuda && cgo && linux

package cuda

import (
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"gorgonia.org/cu"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
	cudakernels "dev.gpustall/kernels/cuda"
)

// variants is what is known of the kernels' variants, here and in the store.
type variants struct {
	choices Choices
	gpu     string                   // with its driver
	decided map[string]*device.Tuned // by key
	order   []string                 // of decided
	wrong   map[string]string        // by mark: why
	fallen  map[string]string        // by family: why
	modules map[string]string        // hash by module
	hashes  map[kernels.Op]string    // of the modules that an operation uses
	told    []string                 // notes on what was found wrong, until Tune returns them
}

func newVariants(c Choices, gpu string) *variants {
	v := &variants{
		choices: c, gpu: gpu,
		decided: map[string]*device.Tuned{}, wrong: map[string]string{}, fallen: map[string]string{}, modules: map[string]string{},
		hashes: map[kernels.Op]string{},
	}
	if c == nil {
		return v
	}
	for _, f := range cudakernels.Families() {
		if why, ok := c.Get(v.familyKey(f)); ok && why != "" {
			v.fallen[f] = why
		}
	}
	return v
}

// driverVersion returns the driver's release where its kernel module tells it, else the
// version of the API.
func driverVersion(emulated bool) string {
	if text, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil && !emulated {
		if v := regexp.MustCompile(`\b\d+\.\d+(\.\d+)?\b`).Find(text); v != nil {
			return string(v)
		}
	}
	return "API " + strconv.Itoa(cu.Version())
}

// hash returns a hash of the PTX of all modules that op's variants are in. With other kernels, what
// was found does not hold.
func (v *variants) hash(op kernels.Op, t cudakernels.Target) string {
	if h, ok := v.hashes[op]; ok {
		return h
	}
	var names []string
	for _, config := range cudakernels.Configs(op, t) {
		if plan, err := cudakernels.NewPlan(op, t, config); err == nil {
			for _, l := range plan.Launches {
				names = append(names, l.Module)
			}
		}
	}
	slices.Sort(names)
	all := sha256.New()
	for _, name := range slices.Compact(names) {
		sum, ok := v.modules[name]
		if !ok {
			ptx, _ := cudakernels.PTX(name, t.SM) // an error is returned when the module is loaded
			sum = fmt.Sprintf("%x", sha256.Sum256(ptx))
			v.modules[name] = sum
		}
		fmt.Fprintf(all, "%s %s\n", name, sum)
	}
	v.hashes[op] = fmt.Sprintf("%.6x", all.Sum(nil))
	return v.hashes[op]
}

// key names op and its shape on this GPU, with this driver and these kernels.
func (v *variants) key(op kernels.Op, t cudakernels.Target) string {
	return fmt.Sprintf("%s"+kernelsInfix+"%s: %s %+v", v.gpu, v.hash(op, t), op.Name(), op)
}

// mark names a variant of op's kernel for all shapes. A variant that was wrong once is never taken
// again.
func (v *variants) mark(op kernels.Op, t cudakernels.Target, config string) string {
	return fmt.Sprintf("%s"+kernelsInfix+"%s: %s", v.gpu, v.hash(op, t), variantName(op, config))
}

// variantName names a variant of op's kernel for people.
func variantName(op kernels.Op, config string) string {
	return op.Name() + " " + op.Args()[0].Type.String() + variantInfix + config
}

// familyKey names the variants of all operations that use the same instructions.
func (v *variants) familyKey(family string) string {
	return fmt.Sprintf("%s"+kernelsInfix+"%s:"+familyInfix+"%s", v.gpu, cudakernels.Fingerprint(), family)
}

// isWrong reports whether a variant was found wrong, by this run or an earlier one.
func (v *variants) isWrong(mark string) bool {
	if _, ok := v.wrong[mark]; ok {
		return true
	}
	if v.choices == nil {
		return false
	}
	why, ok := v.choices.Get(mark)
	if ok && why != "" {
		v.wrong[mark] = why
		return true
	}
	return false
}

// condemn remembers that a variant must not be used.
func (v *variants) condemn(mark, why string) {
	v.wrong[mark] = why
	v.choices.Set(mark, why)
}

// fell remembers that a family must not be used. One of its variants ended the process that tried
// it, and the likeliest reason is what the family has in common.
func (v *variants) fell(family, why string) {
	v.fallen[family] = why
	v.choices.Set(v.familyKey(family), why)
}

// A choice is stored as the variant and two times in ns: its own and the first
// variant's.

func encode(t *device.Tuned) string {
	return fmt.Sprintf("%s %d %d", t.Variant, t.Time, t.FirstTime)
}

func decode(text string) (variant string, took, first time.Duration, ok bool) {
	n, err := fmt.Sscanf(text, "%s %d %d", &variant, &took, &first)
	return variant, took, first, err == nil && n == 3
}

func (v *variants) decide(key string, t *device.Tuned) {
	v.decided[key] = t
	v.order = append(v.order, key)
}

func (v *variants) forget(key string) {
	delete(v.decided, key)
	v.order = slices.DeleteFunc(v.order, func(k string) bool { return k == key })
}

// tuned lists the decisions so far.
func (v *variants) tuned() []device.Tuned {
	out := make([]device.Tuned, 0, len(v.order))
	for _, key := range v.order {
		out = append(out, *v.decided[key])
	}
	return out
}
