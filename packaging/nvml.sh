#!/usr/bin/env bash
# Writes C that forwards each function of NVML that go-nvml refers to, to the library that go-nvml has opened:
# nvml.sh NVML.H >forwarders.c. GNU ld may leave them for later; lld may not.
set -euo pipefail
cat <<'C'
#define _GNU_SOURCE
#define NVML_NO_UNVERSIONED_FUNC_DEFS 1
#include <dlfcn.h>
#include <stdatomic.h>
#include "nvml.h"

/* The functions here are in the program's own table, before the library's: the next one is meant. */
static void *find(_Atomic(void *) *slot, const char *name) {
  void *found = atomic_load_explicit(slot, memory_order_acquire);
  if (!found && (found = dlsym(RTLD_NEXT, name))) atomic_store_explicit(slot, found, memory_order_release);
  return found;
}

#define FORWARD(type, name, params, args, otherwise)      \
  type name params {                                      \
    static _Atomic(void *) slot;                          \
    type(*to) params = (type(*) params)find(&slot, #name); \
    return to ? to args : otherwise;                      \
  }
C
awk -v RS=';' '{ gsub(/[ \n]+/, " ") }
match($0, /(nvmlReturn_t DECLDIR|const DECLDIR char ?\*) nvml[A-Za-z0-9_]+ ?\([^()]*\)$/) {
  declaration = substr($0, RSTART)
  type = declaration ~ /^const/ ? "const char *" : "nvmlReturn_t"
  otherwise = declaration ~ /^const/ ? "\"\"" : "NVML_ERROR_FUNCTION_NOT_FOUND"
  match(declaration, /nvml[A-Za-z0-9_]+ ?\(/)
  name = substr(declaration, RSTART, RLENGTH - 1)
  params = substr(declaration, RSTART + RLENGTH - 1)
  inner = substr(params, 2, length(params) - 2)
  args = ""
  n = inner == "void" ? 0 : split(inner, each, ",")
  for (i = 1; i <= n; i++) {
    arg = each[i]
    sub(/\[.*\]/, "", arg)
    sub(/ *$/, "", arg)
    sub(/.*[ *]/, "", arg)
    args = args (i > 1 ? ", " : "") arg
  }
  printf "FORWARD(%s, %s, %s, (%s), %s)\n", type, name, params, args, otherwise
}' "$1"
