//go:build cuda && cgo && linux

package cuda

import (
	"cmp"
	"errors"
	"fmt"

	"gorgonia.org/cu"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device/cuda/driver"
	cudakernels "dev.gpustall/kernels/cuda"
)

// library holds the modules and kernels that the driver has loaded. The device owns it.
type library struct {
	ctx       driver.Context
	target    cudakernels.Target
	modules   map[string]cu.Module
	functions map[entry]*function
}

// entry names a kernel.
type entry struct{ module, name string }

// function is a kernel and the dynamic shared memory it may be launched with.
type function struct {
	cu     cu.Function
	shared int
}

// Without an opt-in a block may have this much shared memory, the kernel's own
// included.
const defaultShared = 48 << 10

func (l *library) open(ctx driver.Context, t cudakernels.Target) {
	l.ctx, l.target = ctx, t
	l.modules, l.functions = make(map[string]cu.Module), make(map[entry]*function)
}

// close unloads everything. The context must be current.
func (l *library) close() (err error) {
	for _, m := range l.modules {
		err = cmp.Or(err, m.Unload())
	}
	return err
}

// function returns a kernel, and loads its module at its first use.
func (l *library) function(module, name string, shared int) (cu.Function, error) {
	f := l.functions[entry{module, name}]
	if f == nil {
		m, err := l.module(module)
		if err != nil {
			return cu.Function{}, err
		}
		f = &function{}
		if err := l.ctx.Do(func() (err error) {
			if f.cu, err = m.Function(name); err != nil {
				return err
			}
			// Where the driver loads kernels lazily, this call loads the kernel. At its
			// first launch loading would synchronise, which a capture does not allow.
			static, err := f.cu.Attribute(cu.SharedSizeBytes)
			f.shared = defaultShared - static
			return err
		}); err != nil {
			return cu.Function{}, errs.Wrap(refused(err), "load", fmt.Sprintf("kernel %s of module %s", name, module), "")
		}
		l.functions[entry{module, name}] = f
	}
	if shared > f.shared {
		if err := l.ctx.Do(func() error { return driver.MaxDynamicShared(f.cu, shared) }); err != nil {
			return cu.Function{}, errs.Wrap(refused(err), "give", fmt.Sprintf("kernel %s %d bytes of dynamic shared memory", name, shared), "")
		}
		f.shared = shared
	}
	return f.cu, nil
}

func (l *library) module(name string) (cu.Module, error) {
	if m, ok := l.modules[name]; ok {
		return m, nil
	}
	ptx, err := cudakernels.PTX(name, l.target.SM)
	if err != nil {
		return cu.Module{}, err
	}
	m, err := l.ctx.LoadModule(ptx)
	if err != nil {
		why, hint := "the driver does not compile it", hintDriver
		switch {
		case errors.Is(err, driver.OldDriver):
			why = "the driver is older than the kernels"
		case errors.Is(err, driver.NoCompiler):
			why, hint = "the driver's compiler is not here", "install libnvidia-ptxjitcompiler.so.1, or give the container the driver capability compute"
		}
		return cu.Module{}, errs.New("load module", name, fmt.Sprintf("%s: %v", why, err), hint).Because(err)
	}
	l.modules[name] = m
	return m, nil
}
