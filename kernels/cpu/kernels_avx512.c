#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif
#define LANES 16
#define ROWS 14
#define TABLE_NAME kernels_avx512
#include "table.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
