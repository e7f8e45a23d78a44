//go:build cgo

package cpu

/*
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static void sleep_while(int32_t *at, int32_t value) { syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, value, 0, 0, 0); }
static void wake(int32_t *at) { syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0); }
*/
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// state is what a helper does. The helper or its caller can sleep until it changes. They sleep in
// the kernel (futex), so whoever is woken goes on at once, without Go's scheduler.
type state struct{ atomic.Int32 }

// sleepWhile sleeps while the state has a value. It may return early.
func (s *state) sleepWhile(value int32) {
	C.sleep_while((*C.int32_t)(unsafe.Pointer(&s.Int32)), C.int32_t(value))
}

// wake wakes the thread that sleeps, if one does.
func (s *state) wake() { C.wake((*C.int32_t)(unsafe.Pointer(&s.Int32))) }
