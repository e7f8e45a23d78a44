#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define LANES 8
#define ROWS 6
#define TABLE_NAME kernels_avx2
#include "table.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
