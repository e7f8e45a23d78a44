//go:build linux && cgo

package script

/*
#include <signal.h>

// For each signal: the handler that was there before ours, and whether the last such signal came from
// a process. The kernel sends signals that are typed. A signal that is not watched counts as typed.
static struct sigaction before[65];
static int killed[65];

static void note(int number, siginfo_t *info, void *context) {
	__atomic_store_n(&killed[number], info->si_code != SI_KERNEL, __ATOMIC_RELAXED);
	before[number].sa_sigaction(number, info, context);
}

static void watch(int number) {
	struct sigaction now;
	if (sigaction(number, 0, &now) != 0 || !(now.sa_flags & SA_SIGINFO) || now.sa_sigaction == note) return;
	before[number] = now;
	now.sa_sigaction = note; // keeps the stack and the mask that Go set
	sigaction(number, &now, 0);
}

static int was_killed(int number) { return __atomic_load_n(&killed[number], __ATOMIC_RELAXED); }
*/
import "C"

import "syscall"

// watchSenders notes from now on who sends these signals, for typed, because Go does
// not tell. signal.Notify must have been called for them. Its handler is called as
// before.
func watchSenders(signals ...syscall.Signal) {
	for _, n := range signals {
		C.watch(C.int(n))
	}
}

// typed reports whether the last such signal was typed on the terminal, which sends it to all
// processes there.
func typed(n syscall.Signal) bool { return C.was_killed(C.int(n)) == 0 }
