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

// The signals that were ignored when this process began, before Go handled them.
static unsigned ignored;

__attribute__((constructor)) static void note_ignored(void) {
	for (int number = 1; number < 32; number++) {
		struct sigaction was;
		if (sigaction(number, 0, &was) == 0 && was.sa_handler == SIG_IGN) ignored |= 1u << number;
	}
}

static int was_ignored(int number) { return ignored >> number & 1; }

static int was_killed(int number) { return __atomic_load_n(&killed[number], __ATOMIC_RELAXED); }
*/
import "C"

import (
	"os/signal"
	"syscall"
)

// Go would handle a signal that this process was started to ignore, and a script would get the
// default. An interrupt and a hangup it leaves ignored by itself.
func init() {
	for _, n := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGABRT} {
		if C.was_ignored(C.int(n)) != 0 {
			signal.Ignore(n)
		}
	}
}

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
